package torch

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A measured optimizer of testdata/optimizers.json.gz.
type measuredOptimizer struct {
	Name      string  `json:"name"`
	Kind      string  `json:"kind"` // default, foreach, fused, loop
	DType     string  `json:"dtype"`
	Shape     []int64 `json:"shape"`
	First     []int64 `json:"first"`
	FirstCut  bool    `json:"first_cut"` // the list goes on
	Steady    []int64 `json:"steady"`
	SteadyCut bool    `json:"steady_cut"`
}

type optimizerData struct {
	Cases   []measuredOptimizer `json:"cases"`
	Helpers map[string][]int64  `json:"helpers"`
}

// parameters returns eight parameters with gradients, as the measurement had them.
func (l *lab) parameters(dtype program.DType, shape ...int64) []*leaf {
	var params []*leaf
	for range 8 {
		p := l.leaf(dtype, shape...)
		p.leaf.grad = l.plain(dtype, shape...)
		params = append(params, p.leaf)
	}
	return params
}

// TestOptimizers holds the requests of optimizer.step(), the first and a steady one, against measured ones.
func TestOptimizers(t *testing.T) {
	var data optimizerData
	testfile.JSON(t, "testdata/optimizers.json.gz", &data)
	for _, c := range data.Cases {
		t.Run(c.Name+" "+c.Kind+" "+c.DType, func(t *testing.T) {
			l := newLab()
			l.r.opts.Optimizer, l.r.opts.ForLoop = c.Name, c.Kind == "loop"
			if c.Kind == "fused" {
				l.r.opts.Optimizer += "-fused"
			}
			dtype := f32
			if c.DType == "bf16" {
				dtype = bf16
			}
			params := l.parameters(dtype, c.Shape...)
			o, err := l.r.newOptimizer(params)
			must.OK(t, err)
			step := func(want []int64, cut bool) {
				t.Helper()
				l.r.step++
				from := l.r.log.Len()
				l.r.stepOptimizer(o)
				if got := l.since(from); !slices.Equal(got[:min(len(got), lengthOf(want, cut, len(got)))], want) {
					t.Errorf("step %d: got %s\nwant %s", l.r.step, runs(got), runs(want))
				}
			}
			if c.First != nil {
				step(c.First, c.FirstCut)
			} else {
				l.r.step++
				l.r.stepOptimizer(o)
			}
			step(c.Steady, c.SteadyCut)
		})
	}
	if len(data.Cases) < 50 {
		t.Errorf("%d cases, want 50 and more", len(data.Cases))
	}
}

// lengthOf returns how many events of a prediction are to be compared.
func lengthOf(want []int64, cut bool, got int) int {
	if cut {
		return len(want)
	}
	return got
}

// TestStepHelpers holds clip_grad_norm_ and GradScaler against measured ones.
func TestStepHelpers(t *testing.T) {
	var data optimizerData
	testfile.JSON(t, "testdata/optimizers.json.gz", &data)
	l := newLab()
	params := l.parameters(f32, 1<<20)
	loss := l.leaf(f32)
	g := new(gradScaler)
	for _, h := range []struct {
		name string
		run  func()
	}{
		{"clip", func() { l.r.clipNorm(params) }},
		{"scale", func() {
			if _, err := l.r.scaled(g, loss); err != nil {
				t.Fatal(err)
			}
		}},
		{"unscale", func() { l.r.unscale(g) }},
		{"update", func() { l.r.update(g) }},
	} {
		from := l.r.log.Len()
		h.run()
		if got, want := l.since(from), data.Helpers[h.name]; !slices.Equal(got, want) || len(want) == 0 {
			t.Errorf("%s: got %s, want %s", h.name, runs(got), runs(want))
		}
	}
}

// TestOptimizerPeaks checks figures that follow from the sources: what weight decay and the for-loop
// cost, in parameters of one size.
func TestOptimizerPeaks(t *testing.T) {
	for _, c := range []struct {
		name         string
		loop         bool
		first, later int // the most that is held beyond parameters and gradients, and by temporaries in the seventh step
	}{
		{"sgd", false, 0, 0},
		{"sgd-wd", false, 8, 8},
		{"sgd-wd", true, 1, 1},
		{"sgdm-wd-nesterov", false, 16, 8},
		{"sgdm-wd-nesterov", true, 10, 2},
		{"rmsprop-wd-momentum-centered", false, 40, 16},
		{"rmsprop-wd", true, 11, 3},
		{"adagrad-wd", false, 24, 16},
		{"adadelta-wd", false, 40, 24},
		{"adamax-wd", false, 24, 8},
		{"nadam-wd", false, 32, 16},
		{"nadam-wd", true, 20, 4},
		{"radam-wd", false, 24, 8},
		{"radam", true, 18, 5},
		{"adamw-fused-amsgrad", false, 24, 0},
	} {
		l := newLab()
		l.r.opts.Optimizer, l.r.opts.ForLoop = c.name, c.loop
		params := l.parameters(f32, 1<<20)
		from := l.r.log.Len()
		o, err := l.r.newOptimizer(params)
		must.OK(t, err)
		held, first, later := int64(0), int64(0), int64(0)
		for l.r.step = 1; l.r.step <= 7; l.r.step++ {
			before := held
			l.r.stepOptimizer(o)
			peak := held
			for _, n := range l.since(from) {
				if n >= 1<<20 || n <= -(1<<20) { // without the counters of steps
					held += n
					peak = max(peak, held)
				}
			}
			from = l.r.log.Len()
			if l.r.step == 1 {
				first = peak
			}
			later = peak - before
		}
		if got := fmt.Sprint(first>>22, later>>22); got != fmt.Sprint(c.first, c.later) {
			t.Errorf("%s loop %v: %s, want %d %d", c.name, c.loop, got, c.first, c.later)
		}
	}
}

func TestOptimizerNames(t *testing.T) {
	for _, name := range append(slices.Clone(Optimizers), "", "sgdm-wd-nesterov", "adam-fused-amsgrad") {
		r := newLab().r
		r.opts.Optimizer = name
		if _, err := r.newOptimizer(nil); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"adamw8bit", "adamw-", "adamw-wd", "muon-fused", "-fused", "adamw-fused-"} {
		r := newLab().r
		r.opts.Optimizer = name
		if _, err := r.newOptimizer(nil); err == nil {
			t.Errorf("%q is taken", name)
		}
	}
}
