package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/must"
)

// The passes of later steps are made of the first one's where nothing else differs, and are then what simulating them
// gives. TestRepeatedSteps of package estimate holds the built-in models to the same.
func TestSecondPass(t *testing.T) {
	for _, c := range []struct {
		name   string
		prog   *program.Program
		opts   Options
		copied bool
	}{
		{"two losses", twoHeads(), Options{}, true},
		{"three layers", threeLayers(), Options{}, true},
		{"under autocast", threeLayers(), Options{Settings: Settings{Precision: AMPBF16}}, true},
		{"a clipped norm", threeLayers(), Options{Settings: Settings{ClipNorm: true}}, true},
		{"gradients that stay", threeLayers(), Options{Settings: Settings{ZeroGrads: true}}, false},
		{"gradients that add up", threeLayers(), Options{Settings: Settings{Accumulate: 2}}, false},
		{"a scaled loss", threeLayers(), Options{Settings: Settings{Scaler: true}}, false},
		{"no loss", threeLayers(), Options{Settings: Settings{Loss: "none"}}, false},
		{"replicas", threeLayers(), Options{Replicas: Replicas{World: 2}}, true},
		{"replicas, their bucket late", threeLayers(), Options{Replicas: Replicas{World: 2, Late: true}}, true},
		{"a divided optimizer", threeLayers(), Options{Replicas: Replicas{World: 2, Partition: true}}, true},
		{"gradients in buckets", threeLayers(), Options{Replicas: Replicas{World: 2, View: true}}, false},
		{"a static graph", threeLayers(), Options{Replicas: Replicas{World: 2, Static: true}}, false},
	} {
		c.opts.Train, c.opts.Steps, c.opts.Tensors = true, 4, true
		short := trained(t, c.prog, c.opts)
		if short.copied != c.copied {
			t.Errorf("%s: later passes were made of the first: %t, want %t", c.name, short.copied, c.copied)
		}
		c.opts.EveryStep = true
		long := trained(t, c.prog, c.opts)
		got, want := short.log.Timeline(), long.log.Timeline()
		for b := range want.Blocks {
			x, _ := short.made.at(short.log.First(b))
			y, _ := long.made.at(long.log.First(b))
			if x.DType != y.DType || x.Saved != y.Saved || !slices.Equal(x.Shape, y.Shape) {
				t.Fatalf("%s: block %d is %+v, %+v with each step simulated", c.name, b, x, y)
			}
		}
		if long.copied || got.Blocks != want.Blocks || !slices.Equal(got.Events, want.Events) {
			t.Errorf("%s: %d events, %d with each step simulated, or others", c.name, len(got.Events), len(want.Events))
		}
	}
}

func trained(t *testing.T, p *program.Program, opts Options) *run {
	t.Helper()
	r, err := newRun(p, &opts)
	must.OK(t, err)
	values, params := r.load()
	must.OK(t, r.train(values, params))
	return r
}
