package estimate

import (
	"reflect"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/test/must"
)

// A step that is known to repeat the one before it is not simulated again. What comes of that is the same as
// what simulating every step gives, event by event, and it is the rule rather than the exception.
func TestRepeatedSteps(t *testing.T) {
	runs, repeated := 0, 0
	for i, name := range models.Names() {
		if !inTurn(i) || name == "conv_example" { // whose batch is fixed
			continue
		}
		b, err := Bind(open(t, name), Options{Batch: 2})
		must.OK(t, err)
		whole, err := b.Program(true)
		must.OK(t, err)
		for _, o := range []torch.Options{
			{},
			{Steps: 4, Settings: torch.Settings{Optimizer: "sgdm", ZeroGrads: true}},
			{Settings: torch.Settings{Optimizer: "muon", Precision: torch.BF16, ClipNorm: true}},
			{Steps: 5, Settings: torch.Settings{Optimizer: "adamw-fused", Precision: torch.AMPFP16, Scaler: true,
				Accumulate: 2}},
			{Settings: torch.Settings{Optimizer: "radam", ForLoop: true, DropOutput: true, ChannelsLast: true}},
			{Steps: 7, Settings: torch.Settings{Optimizer: "radam", ForLoop: true}}, // whose sixth step is another one
			{Settings: torch.Settings{Optimizer: "adafactor", Loss: "mean"}},
			{Settings: torch.Settings{Optimizer: "adam-fused", Precision: torch.AMPBF16}},
			{Settings: torch.Settings{Optimizer: "sgdm", Loss: "mse", ClipNorm: true}, Steps: 4},
			{Settings: torch.Settings{Loss: "none"}},
			{Settings: torch.Settings{Benchmark: true, Optimizer: "sgdm"}, Steps: 4},
			{Replicas: torch.Replicas{World: 2}, Steps: 4, Settings: torch.Settings{Benchmark: true, ChannelsLast: true}},
			{Replicas: torch.Replicas{World: 4}, Steps: 4},
			{Replicas: torch.Replicas{World: 2, View: true, Bucket: 5 << 20}, Steps: 4,
				Settings: torch.Settings{ZeroGrads: true}},
			{Replicas: torch.Replicas{World: 2}, Steps: 4, Settings: torch.Settings{Accumulate: 3}},
			{Replicas: torch.Replicas{World: 4, Partition: true}, Steps: 5, Settings: torch.Settings{Precision: torch.AMPBF16,
				ClipNorm: true}},
		} {
			o.Train = true
			p := whole
			short, err := torch.Simulate(p, o)
			if err != nil {
				continue // a loss that the model has no output for
			}
			runs++
			if short.Log.Written() < short.Log.Len() {
				repeated++
			}
			o.EveryStep = true
			long, err := torch.Simulate(p, o)
			must.OK(t, err)
			if o.Replicas.World > 1 {
				testLate(t, name, p, o, short)
			}
			got, want := slices.Collect(short.Log.Events), slices.Collect(long.Log.Events)
			if !slices.Equal(got, want) {
				t.Errorf("%s under %+v: %d events with steps repeated, %d with each simulated, or others", name, o,
					len(got), len(want))
			}
			if err := short.Log.Source().Check(); err != nil {
				t.Errorf("%s under %+v: %v", name, o, err)
			}
			if short.Log.Blocks() != long.Log.Blocks() || short.Log.Len() != len(got) {
				t.Errorf("%s under %+v: %d blocks and %d events, written out they are %d and %d", name, o, short.Log.Blocks(),
					short.Log.Len(), long.Log.Blocks(), len(got))
			}
		}
	}
	// Not where a rule changes after five steps, nor where nothing runs backward and lets the graph's tensors go.
	if runs < 40 || repeated*10 < runs*7 {
		t.Errorf("%d of %d runs had steps repeated", repeated, runs)
	}
}

// testLate holds what a run would be, had NCCL let go of DDP's first bucket late, to simulating that.
func testLate(t *testing.T, model string, p *program.Program, o torch.Options, run *torch.Run) {
	o.Replicas.Late = true
	late, err := torch.Simulate(p, o)
	must.OK(t, err)
	got, want := slices.Collect(run.Late().Events), slices.Collect(late.Log.Events)
	if !slices.Equal(got, want) {
		t.Errorf("%s under %+v: %d events with a late bucket, %d simulated with it, or others", model, o, len(got),
			len(want))
	}
	if slices.Equal(got, slices.Collect(run.Log.Events)) {
		t.Errorf("%s under %+v: a late bucket makes no difference", model, o)
	}
}

// A run that is replayed while it is simulated comes to what its replay from the beginning comes to.
func TestFollowed(t *testing.T) {
	for _, c := range []struct {
		model string
		step  Step
	}{
		{"qwen2_0_5b", Step{}},
		{"densenet121", Step{}},
		{"densenet121", Step{MemoryLimit: 600 << 20}}, // workspaces are given up
		{"densenet121", Step{MemoryLimit: 100 << 20}}, // it does not survive
		{"swin_t", Step{Settings: torch.Settings{Accumulate: 4, Optimizer: "muon"}}},
	} {
		b, err := Bind(open(t, c.model), Options{Batch: 4})
		must.OK(t, err)
		s, err := b.Simulate(c.step)
		must.OK(t, err)
		if n := s.Run.Log.Written(); n <= 1<<13 {
			t.Errorf("%s: %d events, too few to follow", c.model, n)
		}
		again, err := caching.NewReplayer(caching.Config{Limit: c.step.MemoryLimit,
			Total: gpu.Default().Memory}).Finish(s.Run.Log)
		must.OK(t, err)
		if !reflect.DeepEqual(came(s.Replay), came(again)) {
			t.Errorf("%s under %+v: followed %+v\nreplayed %+v", c.model, c.step, s.Replay.PeakAllocated,
				again.PeakAllocated)
		}
	}
}

// came is what a replay came to: all that its result says but for the allocator as it was left.
func came(r *caching.Result) (all []any) {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.IsExported() && f.Name != "Allocator" {
			all = append(all, v.Field(i).Interface())
		}
	}
	return all
}

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
