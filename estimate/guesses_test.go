package estimate

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
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
		plan               program.Plan
	}{
		{"bert_base", "ts-train", "causal-flag", "m.bert.encoder.layer.0.attention.self", program.Plan{}},
		{"resnet18", "ts-train", "activation-in-place", "relu", program.Plan{}},
		{"swin_t", "ts-train", "used-twice", "features.1.0.attn", program.Plan{}},
	} {
		opt := Options{Batch: 4, Step: &Step{Plan: c.plan}, Weigh: true}
		m := openGraph(t, "", c.model, c.form)
		r, err := Run(m, opt)
		must.OK(t, err)
		opt.Without = []string{c.guess}
		off, err := Run(m, opt)
		must.OK(t, err)
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

// What an estimate may be off by is listed with it.
func TestCauses(t *testing.T) {
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
		if g := guessNamed(r, c.name); g == nil || g.Places == 0 || g.Assume != "" ||
			g.Weighed != (c.name == dataDependentSize) {
			t.Errorf("%s is not listed as a cause that no flag decides: %+v", c.name, r.Guesses)
		}
	}
}

// Causes with two ends say how far the peak is from the other one.
func TestCausesWeigh(t *testing.T) {
	const rows, width = 1 << 12, 256
	const tensor = rows * width * 4
	weights := func(names ...string) (list []on.Tensor) {
		for _, name := range names {
			list = append(list, on.Bare(name, onnxload.Float32, width, width))
		}
		return list
	}
	graph := func(inits []on.Tensor, nodes ...on.Node) on.Model {
		return on.Model{Producer: "pytorch", Graph: on.Graph{In: []on.Value{on.Float("x", rows, width)}, Inits: inits,
			Nodes: nodes, Out: []on.Value{{Name: "y"}}}}
	}
	for _, c := range []struct {
		name  string
		model on.Model
		step  Step
		fewer int64 // at the other end, but for a page
	}{
		{adapters, graph(weights("fc.weight", "fc.lora_A"), on.Op("MatMul", "x fc.weight", "h"),
			on.Op("MatMul", "h fc.lora_A", "y")), Step{}, 2 * 4 * width * width}, // AdamW keeps two
	} {
		r := answer(t, c.model, Options{Step: &c.step, Weigh: true})
		g := guessNamed(r, c.name)
		switch {
		case c.fewer == 0 && g != nil:
			t.Errorf("%s is a cause that nothing depends on: %+v", c.name, g)
		case c.fewer > 0 && (g == nil || !g.Weighed || g.Fewer < c.fewer-4096 || g.Fewer > c.fewer+tensor/8):
			t.Errorf("%s: %+v, want %d less", c.name, g, c.fewer)
		}
	}
}

// What weighs a guess without replaying the small pool, and with plans that are known, comes to what the whole
// simulation comes to, by any allocator's settings.
func TestPeakAllocated(t *testing.T) {
	for _, model := range []string{"resnet18", "unet", "vit_b_16"} {
		b, err := Bind(openGraph(t, "", model, "ts-train"), Options{Batch: 3})
		must.OK(t, err)
		for _, s := range []Step{
			{}, {Infer: true}, {MemoryLimit: 64 << 20},
			{AllocConf: "expandable_segments:True"}, {AllocConf: "roundup_power2_divisions:8"},
			{AllocConf: "max_split_size_mb:21"}, {AllocConf: "per_process_memory_fraction:0.001"},
		} {
			whole, err := b.simulateOnce(s)
			must.OK(t, err)
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
		must.OK(t, err)
		steps := []Step{{}, {Infer: true}}
		if model == "swin_t" || model == "bert_base" { // which have blocks
			steps = append(steps, Step{Plan: program.Plan{Checkpoint: program.Blocks}})
		}
		for _, s := range steps {
			sim, err := b.simulateOnce(s)
			must.OK(t, err)
			for _, r := range program.VariableGuesses {
				other := b.again(map[string]bool{r.Name: true}, false, true)
				want, err := other.peakAllocated(s, sim, false)
				must.OK(t, err)
				if got, err := other.peakAllocated(s, sim, true); err != nil || got != want {
					t.Errorf("%s, %+v, %s: %d, %v, want %d", model, s, r.Name, got, err, want)
				}
				opts, _ := s.options()
				opts.Like = sim.Run.Log
				if p, err := other.planned(s); err != nil {
					t.Fatal(err)
				} else if run, err := torch.Simulate(p, opts); err != nil {
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
