package estimate

import (
	"encoding/json"
	"math"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/must"
)

// Ways that fit come first, those of fewest GPUs before the others, and each takes what its settings take alone.
func TestWays(t *testing.T) {
	bound, err := Bind(openModel(t, "gpt2", formOf("gpt2")), Options{Batch: 16})
	must.OK(t, err)
	const memory = 12 << 30
	ways, err := bound.Ways(Step{}, memory, Safe)
	must.OK(t, err)
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

// Under a cap of the device's memory, sets of blocks were run on a GPU: the step survives and reserves what is simulated,
// within 1 %.
func TestCheckpointSetsMeasured(t *testing.T) {
	file := must.Read(t, "testdata/beyond/checkpoint_sets.json")
	var measured struct {
		Cases []struct {
			Model string
			Batch int64
			With  struct {
				Survives bool
				Reserved int64
				Retries  int64
			}
			Proposed struct {
				Expression string `json:"checkpoint"`
			}
		}
	}
	must.OK(t, json.Unmarshal(file, &measured))
	for _, c := range measured.Cases {
		sim := simulateCheckpointed(t, c.Model, c.Batch, c.Proposed.Expression)
		off := float64(sim.Peak.Reserved)/float64(c.With.Reserved) - 1
		if !c.With.Survives || c.With.Retries != 0 || math.Abs(off) > 0.01 {
			t.Errorf("%s, %s: %d reserved, measured %+v: %+.2f %%", c.Model, c.Proposed.Expression, sim.Peak.Reserved, c.With,
				100*off)
		}
	}
	if len(measured.Cases) != 6 {
		t.Errorf("%d cases, want 6", len(measured.Cases))
	}
}

// Under the same caps, sets that are safe survive, all of them without a retry, and reserve no more than was safe.
func TestSafeCheckpointSetsMeasured(t *testing.T) {
	file := must.Read(t, "testdata/beyond/checkpoint_sets_safe.json")
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
	must.OK(t, json.Unmarshal(file, &measured))
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

// simulateCheckpointed simulates a training step with the modules checkpointed that an expression names.
func simulateCheckpointed(t *testing.T, model string, batch int64, expression string) *Simulation {
	t.Helper()
	bound, err := Bind(openModel(t, model, formOf(model)), Options{Batch: batch})
	must.OK(t, err)
	sim, err := bound.Simulate(Step{Plan: program.Plan{Checkpoint: expression}})
	must.OK(t, err)
	return sim
}
