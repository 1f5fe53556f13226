package estimate

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/eager"
	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/estimate/lifetime"
	"github.com/memestimate/memestimate/estimate/parallel"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// guessNamed returns the guess of that name, nil where it is not listed.
func guessNamed(r *Report, name string) *Guess {
	for i := range r.Guesses {
		if r.Guesses[i].Name == name {
			return &r.Guesses[i]
		}
	}
	return nil
}

// A guess that a run rests on is listed with where it was made and with what the run takes where it is switched off;
// one that is decided is none any more.
func TestGuessesMade(t *testing.T) {
	for _, c := range []struct {
		model, form, guess string
		layer              string // one of those that it is about
	}{
		{"bert_base", "ts-train", dialect.CausalFlag.Name, "m.bert.encoder.layer.0.attention.self"},
		{"resnet18", "ts-train", dialect.ActivationInPlace.Name, "relu"},
		{"bert_base", "ts-eval", dialect.TiedHead.Name, ""},
		{"swin_t", "ts-train", "used-twice", "features.1.0.attn"},
	} {
		opt := Options{Batch: 4, Step: &Step{}, Weigh: true}
		m := openGraph(t, "", c.model, c.form)
		r, err := Run(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		opt.Without = []string{c.guess}
		off, err := Run(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		g := guessNamed(r, c.guess)
		if g == nil || !g.Made || g.Places == 0 || !g.Weighed || g.Assume != c.guess+"=no" ||
			g.Bytes != off.Peak.Allocated-r.Peak.Allocated || c.layer != "" && !slices.Contains(g.Layers, c.layer) {
			t.Errorf("%s:%s: %+v; without it the peak is %d instead of %d", c.model, c.form, g, off.Peak.Allocated,
				r.Peak.Allocated)
		}
		if guessNamed(off, c.guess) != nil {
			t.Errorf("%s:%s: %s is switched off, and listed", c.model, c.form, c.guess)
		}
		if !slices.IsSortedFunc(r.Guesses, func(x, y Guess) int {
			return int(min(max(y.Weight()-x.Weight(), -1), 1))
		}) {
			t.Errorf("%s:%s: the heaviest does not come first: %+v", c.model, c.form, r.Guesses)
		}
	}
}

// What no flag decides is listed too.
func TestDoubts(t *testing.T) {
	graph := func(nodes ...on.Node) on.Model {
		return on.Model{Producer: "pytorch", Opsets: []on.Import{on.Domain("custom", 1)}, Graph: on.Graph{
			In: []on.Value{on.Float("x", 4, 8)}, Inits: []on.Tensor{on.Bare("fc.weight", onnxload.Float32, 8, 8)},
			Nodes: append([]on.Node{on.Op("MatMul", "x fc.weight", "h")}, nodes...), Out: []on.Value{{Name: "y"}},
		}}
	}
	for _, c := range []struct {
		model on.Model
		name  string
	}{
		{graph(on.Op("Strange", "h", "s").Of("custom"), on.Op("Relu", "h", "y")), unmodelledOperator},
		{graph(on.Op("NonZero", "h", "n"), on.Op("Cast", "n", "y", on.A("to", 1))), dataDependentSize},
	} {
		r := answer(t, c.model, Options{Step: &Step{Infer: true}, Weigh: true})
		if g := guessNamed(r, c.name); g == nil || g.Places == 0 || g.Assume != "" || g.Weighed {
			t.Errorf("%s is not listed as a doubt that no flag decides: %+v", c.name, r.Guesses)
		}
	}
	r, err := Run(openGraph(t, "", "bert_base", "dynamo"), Options{Batch: 2, Step: &Step{}, Weigh: true})
	if err != nil || guessNamed(r, lostInExport) == nil {
		t.Errorf("a default export that is trained: %+v, %v", r.Guesses, err)
	}
}

// What weighs a guess without replaying the small pool, and with plans that are known, comes to what the whole
// simulation comes to, by any allocator's settings.
func TestPeakAllocated(t *testing.T) {
	for _, model := range []string{"resnet18", "unet", "vit_b_16"} {
		b, err := Bind(openGraph(t, "", model, "ts-train"), Options{Batch: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []Step{
			{}, {Infer: true}, {MemoryLimit: 64 << 20},
			{AllocConf: "expandable_segments:True"}, {AllocConf: "roundup_power2_divisions:8"},
			{AllocConf: "max_split_size_mb:21"}, {AllocConf: "per_process_memory_fraction:0.001"},
		} {
			whole, err := b.simulateOnce(s)
			if err != nil {
				t.Fatal(err)
			}
			got, err := b.peakAllocated(s, whole, false)
			if err != nil || got != whole.Peak.Allocated {
				t.Errorf("%s, %+v: %d, %v, want %d", model, s, got, err, whole.Peak.Allocated)
			}
		}
	}
}

// A run whose values live otherwise is ended behind its first forward pass where this is like that of the run beside
// it, and no sooner: the peak is that of the whole.
func TestPeakAllocatedOfTheSameRun(t *testing.T) {
	ended := 0
	for _, model := range []string{"alexnet", "densenet121", "swin_t", "bert_base"} {
		b, err := Bind(openGraph(t, "", model, "ts-train"), Options{Batch: 3})
		if err != nil {
			t.Fatal(err)
		}
		steps := []Step{{}, {Infer: true}}
		if model == "swin_t" || model == "bert_base" { // which have blocks
			steps = append(steps, Step{Plan: parallel.Plan{Checkpoint: parallel.Blocks}})
		}
		for _, s := range steps {
			sim, err := b.simulateOnce(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range lifetime.Rules {
				other := b.again(map[string]bool{r.Name: !r.Unproven}, map[string]bool{r.Name: r.Unproven}, true)
				want, err := other.peakAllocated(s, sim, false)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := other.peakAllocated(s, sim, true); err != nil || got != want {
					t.Errorf("%s, %+v, %s: %d, %v, want %d", model, s, r.Name, got, err, want)
				}
				opts, _ := s.options()
				opts.Like = sim.Run.Log
				if p, _, err := other.planned(s, &opts); err != nil {
					t.Fatal(err)
				} else if run, err := eager.Simulate(p, opts); err != nil {
					t.Fatal(err)
				} else if run.Same {
					ended++
				}
			}
		}
	}
	if ended < 10 {
		t.Errorf("%d runs were like the one beside them, wanted 10", ended)
	}
}
