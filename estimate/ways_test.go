package estimate

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/caching"
)

// The set that is proposed fits, one block fewer does not, and it costs less than all blocks.
func TestFitCheckpoint(t *testing.T) {
	for model, batch := range map[string]int64{"gpt2": 8, "llama_160m": 8, "bert_base": 32, "vit_b_16": 32,
		"resnet50": 64, "convnext_tiny": 32} {
		bound, err := Bind(openModel(t, model, formOf(model)), Options{Batch: batch})
		if err != nil {
			t.Fatal(err)
		}
		ends, err := bound.FitCheckpoint(Step{}, 1, Safe)
		if err != nil {
			t.Fatal(err)
		}
		if ends.Fits || len(ends.Blocks) == 0 || ends.All >= ends.Plain {
			t.Errorf("%s: in a byte: %+v", model, ends)
		}
		for _, share := range []int64{30, 60} {
			memory := ends.All + share*(ends.Plain-ends.All)/100
			f, err := bound.FitCheckpoint(Step{}, memory, Safe)
			if err != nil {
				t.Fatal(err)
			}
			if !f.Fits || f.Need > memory || f.By != "safe_bytes" || f.Fewer <= memory || f.Price >= f.PriceAll ||
				len(f.Blocks) >= f.Of {
				t.Errorf("%s in %d: %+v", model, memory, f)
			}
			sim, err := bound.Simulate(Step{Plan: program.Plan{Checkpoint: f.Expression}})
			if err != nil {
				t.Fatal(err)
			}
			if sim.Peak.Device != f.Device || sim.Peak.Safe != f.Need {
				t.Errorf("%s: --checkpoint %s takes %d, safe %d, not %+v", model, f.Expression, sim.Peak.Device, sim.Peak.Safe, f)
			}
		}
		if f, err := bound.FitCheckpoint(Step{}, ends.Plain, Safe); err != nil || !f.Fits || len(f.Blocks) != 0 {
			t.Errorf("%s: what fits as it is has blocks checkpointed: %+v, %v", model, f, err)
		}
	}
	bound, err := Bind(openModel(t, "vgg16", formOf("vgg16")), Options{Batch: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bound.FitCheckpoint(Step{}, 1<<30, Safe); err != ErrNoBlocks {
		t.Errorf("vgg16 has no blocks that repeat: %v", err)
	}
}

// The cheapest set that survives goes on in the memory that is left to the allocator, and with one block fewer the step
// runs out there. What it does in twenty steps is what it does in forty.
func TestCheapestSurvivor(t *testing.T) {
	for _, c := range []struct {
		model         string
		batch, memory int64
		blocks        int
		retries       int64
	}{
		{"resnet50", 128, 11_282_677_760, 1, 10},
		{"convnext_tiny", 64, 6_963_593_216, 2, 3},
		{"qwen2_0_5b", 4, 17_912_823_808, 6, 1},
	} {
		bound, err := Bind(openModel(t, c.model, formOf(c.model)), Options{Batch: c.batch})
		if err != nil {
			t.Fatal(err)
		}
		f, err := bound.FitCheckpoint(Step{}, c.memory, Predicted)
		if err != nil {
			t.Fatal(err)
		}
		v := f.Survivor
		if v == nil || len(v.Blocks) != c.blocks || v.Outcome != Retries || v.Retries != c.retries ||
			v.EachStep != 0 || v.Price >= f.Price || v.Need <= c.memory {
			t.Errorf("%s: %+v", c.model, v)
			continue
		}
		limit := c.memory - (f.Device - simulateCheckpointed(t, c.model, c.batch, f.Expression).Peak.Reserved)
		run := func(set []program.Block, steps int) *caching.Result {
			sim, err := bound.simulateOnce(Step{Plan: program.Plan{Checkpoint: namesOf(set)}, MemoryLimit: limit, steps: steps})
			if err != nil {
				t.Fatal(err)
			}
			return sim.Replay
		}
		if fewer := run(v.set[:c.blocks-1], manySurvive); fewer.OOM == nil {
			t.Errorf("%s survives with %d blocks too", c.model, c.blocks-1)
		}
		long := run(v.set, 2*manySurvive)
		if long.OOM != nil || long.Stats.AllocRetries != c.retries {
			t.Errorf("%s: %d retries in %d steps, %d in half as many", c.model, long.Stats.AllocRetries, 2*manySurvive,
				c.retries)
		}
	}
}

// In no memory at all no set survives; where the plain step survives by retries no block need be checkpointed, and
// where it fits nothing is said of retries.
func TestSurvivorAtTheEnds(t *testing.T) {
	bound, err := Bind(openModel(t, "resnet50", formOf("resnet50")), Options{Batch: 128})
	if err != nil {
		t.Fatal(err)
	}
	ends, err := bound.FitCheckpoint(Step{}, 1, Predicted)
	if err != nil || ends.Survivor != nil || ends.EndFewer != RunsOut {
		t.Errorf("in a byte: %+v, %v", ends, err)
	}
	f, err := bound.FitCheckpoint(Step{}, ends.Plain-1<<21, Predicted)
	if err != nil || f.Survivor == nil || len(f.Survivor.Blocks) != 0 || f.Survivor.Expression != "" ||
		f.Survivor.Outcome != Retries || f.Survivor.Need != f.Plain {
		t.Errorf("2 MiB short: %+v, %v", f, err)
	}
	if f, err = bound.FitCheckpoint(Step{}, ends.Plain, Predicted); err != nil || f.Survivor != nil {
		t.Errorf("where it fits: %+v, %v", f.Survivor, err)
	}
}

// Ways that fit come first, those of fewest GPUs before the others, and each takes what its settings take alone.
func TestWays(t *testing.T) {
	bound, err := Bind(openModel(t, "gpt2", formOf("gpt2")), Options{Batch: 16})
	if err != nil {
		t.Fatal(err)
	}
	const memory = 12 << 30
	ways, err := bound.Ways(Step{}, memory, Safe)
	if err != nil {
		t.Fatal(err)
	}
	var refused []string
	for len(ways) > 0 && ways[len(ways)-1].Error != "" {
		refused = append(refused, ways[len(ways)-1].Settings)
		ways = ways[:len(ways)-1]
	}
	if len(ways) != 60 || len(refused) > 0 { // twelve each of five schemes
		t.Errorf("%d ways, want 60, and not simulated: %q", len(ways), refused)
	}
	inOrder := slices.IsSortedFunc(ways, func(a, b Way) int {
		switch {
		case a.Fits != b.Fits && a.Fits:
			return -1
		case a.Fits != b.Fits:
			return 1
		}
		return a.GPUs - b.GPUs
	})
	if !inOrder || !ways[0].Fits || ways[0].Settings != "--checkpoint blocks" {
		t.Errorf("the first is %+v, in order: %v", ways[0], inOrder)
	}
	alone := map[string]Step{
		"": {}, "--checkpoint blocks": {Plan: program.Plan{Checkpoint: program.Blocks}},
		"--gpus 4 --parallel fsdp --meta-device": {Plan: program.Plan{GPUs: 4, Parallel: program.FSDP, MetaDevice: true}},
		"--gpus 8 --parallel zero1":              {Plan: program.Plan{GPUs: 8, Parallel: program.ZeRO1}},
	}
	for _, w := range ways {
		if w.Error != "" || w.Fits != (w.Need <= memory) || w.By != "safe_bytes" {
			t.Errorf("%+v", w)
		}
		s, ok := alone[w.Settings]
		if !ok {
			continue
		}
		delete(alone, w.Settings)
		if sim, err := bound.Simulate(s); err != nil || sim.Peak.Device != w.Device || sim.Peak.Safe != w.Need {
			t.Errorf("%s: %d, %v, want %d", w.Settings, w.Device, err, sim.Peak.Device)
		}
	}
	if len(alone) > 0 {
		t.Errorf("not among the ways: %v", alone)
	}
}

// BenchmarkWays simulates all ways of a transformer of 24 layers.
func BenchmarkWays(b *testing.B) {
	bound, err := Bind(openModel(b, "qwen2_0_5b", formOf("qwen2_0_5b")), Options{Batch: 4})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := bound.Ways(Step{}, 24<<30, Safe); err != nil {
			b.Fatal(err)
		}
	}
}

// missedSets are models for which today's proposal is not the measured one, with the cause.
var missedSets = map[string]string{
	"qwen2_0_5b": "lifetimes within checkpointed blocks lost 0.7 MB of temporaries with the rules that were deleted, " +
		"so that eight blocks, which ran out, seem to be enough",
}

// Under a cap of the device's memory, sets that were proposed were run on a GPU, and with one block fewer: they survive
// and reserve what is simulated for them, within 1 %. With one block fewer the step runs out, or goes on because the
// allocator gives its cached memory back: as is foretold.
func TestCheckpointSetsMeasured(t *testing.T) {
	type run struct {
		Survives bool
		Reserved int64
		Retries  int64
	}
	var measured struct {
		Cases []struct {
			Model           string
			Batch           int64
			Memory, Context int64
			With            run
			OneFewer        run `json:"one_fewer"`
			Proposed        struct {
				Expression string `json:"checkpoint"`
				Blocks     []string
			}
		}
	}
	file, err := os.ReadFile("testdata/beyond/checkpoint_sets.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(file, &measured); err != nil {
		t.Fatal(err)
	}
	runsOut := 0
	for _, c := range measured.Cases {
		sim := simulateCheckpointed(t, c.Model, c.Batch, c.Proposed.Expression)
		off := float64(sim.Peak.Reserved)/float64(c.With.Reserved) - 1
		if !c.With.Survives || c.With.Retries != 0 || math.Abs(off) > 0.01 {
			t.Errorf("%s, %s: %d reserved, measured %+v: %+.2f %%", c.Model, c.Proposed.Expression, sim.Peak.Reserved, c.With,
				100*off)
		}
		want := RunsOut
		if c.OneFewer.Survives && c.OneFewer.Retries > 0 {
			want = Retries
		}
		bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
		if err != nil {
			t.Fatal(err)
		}
		fit, err := bound.FitCheckpoint(Step{}, c.Memory, Predicted)
		right := err == nil && slices.Equal(fit.Blocks, c.Proposed.Blocks) && fit.EndFewer == want
		if why, ok := missedSets[c.Model]; ok {
			if right {
				t.Errorf("%s is answered as measured: take it out of missedSets (%s)", c.Model, why)
			}
		} else if !right {
			t.Errorf("%s: %+v, %v; measured %+v with the set %q, one fewer %+v", c.Model, fit, err, c.With, c.Proposed.Blocks,
				c.OneFewer)
		}
		if !c.OneFewer.Survives {
			runsOut++
		}
	}
	if len(measured.Cases) != 6 || runsOut != 4 { // as docs/training.md tells it
		t.Errorf("%d of %d run out with a block fewer", runsOut, len(measured.Cases))
	}
}

// Under the same caps, sets that are safe survive, all of them without a retry, and reserve no more than was safe.
func TestSafeCheckpointSetsMeasured(t *testing.T) {
	file, err := os.ReadFile("testdata/beyond/checkpoint_sets_safe.json")
	if err != nil {
		t.Fatal(err)
	}
	var measured struct {
		Cases []struct {
			Model   string
			Batch   int64
			Context int64
			With    struct {
				Survives bool
				Reserved int64
				Retries  int
			}
			Proposed struct {
				Expression string `json:"checkpoint"`
			}
		}
	}
	if err := json.Unmarshal(file, &measured); err != nil {
		t.Fatal(err)
	}
	if len(measured.Cases) != 6 {
		t.Errorf("%d cases, want 6", len(measured.Cases))
	}
	for _, c := range measured.Cases {
		sim := simulateCheckpointed(t, c.Model, c.Batch, c.Proposed.Expression)
		if !c.With.Survives || c.With.Retries != 0 || c.With.Reserved+c.Context > sim.Peak.Safe {
			t.Errorf("%s, %s: %+v, safe %d with a context of %d", c.Model, c.Proposed.Expression, c.With, sim.Peak.Safe,
				c.Context)
		}
	}
}

// Under the same caps, the cheapest sets that survive, if by retries, were run for twenty steps, and with one block
// fewer: all six survive, retries end as is foretold, and with one block fewer all six run out.
func TestSurvivingCheckpointSetsMeasured(t *testing.T) {
	file, err := os.ReadFile("testdata/beyond/checkpoint_sets_surviving.json")
	if err != nil {
		t.Fatal(err)
	}
	type run struct {
		Survives bool
		Retries  []int64 `json:"retries_after_step"`
	}
	var measured struct {
		Cases []struct {
			Model    string
			Batch    int64
			Memory   int64
			Run      []string
			With     run
			OneFewer run `json:"one_fewer"`
		}
	}
	if err := json.Unmarshal(file, &measured); err != nil {
		t.Fatal(err)
	}
	if len(measured.Cases) != 6 {
		t.Errorf("%d cases, want 6", len(measured.Cases))
	}
	for _, c := range measured.Cases {
		bound, err := Bind(openModel(t, c.Model, formOf(c.Model)), Options{Batch: c.Batch})
		if err != nil {
			t.Fatal(err)
		}
		fit, err := bound.FitCheckpoint(Step{}, c.Memory, Predicted)
		if err != nil {
			t.Fatal(err)
		}
		blocks, each := fit.Blocks, int64(0)
		if fit.Survivor != nil {
			blocks, each = fit.Survivor.Blocks, fit.Survivor.EachStep
		}
		if !slices.Equal(blocks, c.Run) {
			t.Errorf("%s: %q is the cheapest that survives, %q was run", c.Model, blocks, c.Run)
		}
		last := c.With.Retries[manySurvive-1] - c.With.Retries[manySurvive-2]
		if !c.With.Survives || c.OneFewer.Survives || last != each {
			t.Errorf("%s, %q: %+v with it, %+v with one fewer, %d retries in each step", c.Model, c.Run, c.With,
				c.OneFewer, each)
		}
	}
}

// simulateCheckpointed simulates a training step with the modules checkpointed that an expression names.
func simulateCheckpointed(t *testing.T, model string, batch int64, expression string) *Simulation {
	t.Helper()
	bound, err := Bind(openModel(t, model, formOf(model)), Options{Batch: batch})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := bound.Simulate(Step{Plan: program.Plan{Checkpoint: expression}})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}
