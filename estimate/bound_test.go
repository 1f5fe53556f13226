package estimate

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/dialect"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/caching"
)

// The bound is above the prediction, and above whatever any other choice of workspaces or addresses reserves.
func TestUpperBound(t *testing.T) {
	for _, c := range []struct {
		model string
		step  Step
		convs bool
	}{
		{"resnet50", Step{Settings: torch.Settings{Precision: "bf16"}}, true}, {"resnet50", Step{Infer: true}, true},
		{"gpt2", Step{}, false}, {"gpt2", Step{Infer: true}, false},
	} {
		// 5 images, which nobody measured: the trees disagree.
		bound, err := Bind(open(t, c.model), Options{Batch: 5})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := bound.Simulate(c.step)
		if err != nil {
			t.Fatal(err)
		}
		if c.convs != (len(sim.Run.Workspaces) > 0) {
			t.Errorf("%s %+v: %d other choices of workspaces", c.model, c.step, len(sim.Run.Workspaces))
		}
		if sim.Peak.UpperBound < sim.Peak.Device+spareBytes {
			t.Errorf("%s %+v: at most %d, and predicted is %d", c.model, c.step, sim.Peak.UpperBound, sim.Peak.Device)
		}
		// Without the small pool and without repetitions it comes to the same.
		if large, ok := caching.LargeOf(sim.Run.Log, caching.Options{}).Reserved(caching.Config{}); !ok ||
			large+sim.Replay.Stats.ReservedBytes.Small.Peak != sim.Peak.Reserved {
			t.Errorf("%s %+v: the large pool reserves %d and the small one %d, of %d", c.model, c.step, large,
				sim.Replay.Stats.ReservedBytes.Small.Peak, sim.Peak.Reserved)
		}
		configs := []caching.Config{{Address: caching.Rising()}}
		for _, w := range sim.Run.Workspaces {
			configs = append(configs, caching.Config{Workspaces: w})
		}
		for i, cfg := range configs {
			r, err := caching.NewReplayer(cfg).Finish(sim.Run.Log)
			if err != nil {
				t.Fatal(err)
			}
			if device := r.PeakReserved.Reserved + sim.Context; device+spareBytes > sim.Peak.UpperBound {
				t.Errorf("%s %+v: at most %d, and choice %d takes %d", c.model, c.step, sim.Peak.UpperBound, i, device)
			}
		}
		largest := largestRequest(sim.Run.Log)
		for _, e := range sim.Timeline().Events {
			if e.Step > 0 && e.Bytes > largest {
				t.Fatalf("%s %+v: %d bytes are requested, and the largest request is %d", c.model, c.step, e.Bytes, largest)
			}
		}
	}
}

// A run that just survives its limit has a bound all the same, from the choices that survive it as well.
func TestUpperBoundUnderLimit(t *testing.T) {
	bound, err := Bind(open(t, "resnet50"), Options{Batch: 5})
	if err != nil {
		t.Fatal(err)
	}
	free, err := bound.Simulate(Step{})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := bound.Simulate(Step{MemoryLimit: free.Peak.Allocated + 64<<20})
	if err != nil {
		t.Fatal(err)
	}
	if sim.OOM() != nil {
		t.Fatal(sim.OOM())
	}
	if sim.Peak.UpperBound < sim.Peak.Device || sim.Peak.UpperBound > free.Peak.UpperBound {
		t.Errorf("at most %d under a limit; the device %d, without a limit at most %d", sim.Peak.UpperBound, sim.Peak.Device,
			free.Peak.UpperBound)
	}
}

// Where a graph does not say which of two calls it was exported from, the bound has room for the one that saves more.
func TestUpperBoundOfAGuess(t *testing.T) {
	peak := func(step Step, without ...string) Peak {
		return *answer(t, on.Model{Graph: on.Graph{
			In:    []on.Value{on.Float("x", 64, 4096, 16)},
			Inits: []on.Tensor{on.Bare("fc.weight", onnxload.Float32, 16, 256), on.Int64s("axes", 1)},
			Nodes: []on.Node{on.Op("MatMul", "x fc.weight", "h"), on.Op("ReduceMax", "h axes", "y")},
			Out:   []on.Value{{Name: "y"}},
		}}, Options{Step: &step, Without: without}).Peak
	}
	max, amax := peak(Step{}), peak(Step{}, dialect.MaxWithPlaces.Name)
	if max.Device >= amax.Device || max.UpperBound != amax.UpperBound {
		t.Errorf("max takes %d, at most %d; amax %d, at most %d: wanted less and the same bound", max.Device, max.UpperBound,
			amax.Device, amax.UpperBound)
	}
	if again := peak(Step{Infer: true}); again.UpperBound > max.UpperBound {
		t.Errorf("an inference takes at most %d, the training %d", again.UpperBound, max.UpperBound)
	}
}

// Several goroutines may ask one model that nobody has asked before, also one of which two programs are recovered.
func TestSimulateAtOnce(t *testing.T) {
	for _, c := range []struct{ model, form string }{{"mlp", ""}, {"bert_base", "ts-train"}} {
		b, err := Bind(open(t, strings.TrimSuffix(c.model+":"+c.form, ":")), Options{Batch: 2})
		if err != nil {
			t.Fatal(err)
		}
		peaks := make([]Peak, 6)
		var done sync.WaitGroup
		for i := range peaks {
			done.Go(func() {
				sim, err := b.Simulate(Step{Infer: i%2 > 0})
				if err != nil {
					t.Error(err)
					return
				}
				peaks[i] = sim.Peak
			})
		}
		done.Wait()
		for i := 2; i < len(peaks); i++ {
			if peaks[i].Allocated != peaks[i-2].Allocated || peaks[i].UpperBound != peaks[i-2].UpperBound {
				t.Errorf("%s: run %d peaks at %d, another one at %d", c.model, i, peaks[i].Allocated, peaks[i-2].Allocated)
			}
		}
	}
}

// An unproven guess that could have been made is listed with what it weighs, a note says so, and the bound has room
// for the run in which it is.
func TestGuessesNotMade(t *testing.T) {
	for _, c := range []struct {
		dir, model, form, guess string
		batch                   int64
	}{
		{"testdata/further60b", "att_unet", "ts-train", "kept-in-list", 32},
	} {
		m := openGraph(t, c.dir, c.model, c.form)
		opt := Options{Batch: c.batch, Step: &Step{Infer: true}}
		r, err := Run(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.With = []string{c.guess}
		with, err := Run(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		if g := guessNamed(r, c.guess); g == nil || g.Places == 0 ||
			g.Bytes != with.Peak.Allocated-r.Peak.Allocated || g.Bytes <= 0 {
			t.Errorf("%s: %+v; with it the peak is %d instead of %d", c.model, r.Guesses, with.Peak.Allocated, r.Peak.Allocated)
		}
		if r.Peak.UpperBound < with.Peak.UpperBound {
			t.Errorf("%s: at most %d, and %d were it made", c.model, r.Peak.UpperBound, with.Peak.UpperBound)
		}
		if guessNamed(with, c.guess) != nil {
			t.Errorf("%s: made, and not made: %+v", c.model, with.Guesses)
		}
		said := func(r *Report) bool {
			return slices.ContainsFunc(r.Notes, func(n Note) bool { return strings.Contains(n.Text, "("+c.guess+"; ") })
		}
		if !said(r) || said(with) {
			t.Errorf("%s: a note says that it is not made: %v; where it is: %v", c.model, said(r), said(with))
		}
		opt.With, opt.Without = nil, []string{c.guess}
		off, err := Run(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		if guessNamed(off, c.guess) != nil || off.Peak.UpperBound >= r.Peak.UpperBound {
			t.Errorf("%s: switched off, it still widens the bound to %d", c.model, off.Peak.UpperBound)
		}
	}
}
