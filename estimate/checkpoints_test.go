package estimate

import (
	"math"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
)

// TestCheckpointsAsRecorded holds steps with use_reentrant=True, and with checkpoints within checkpoints, against
// recordings of the same step with PyTorch 2.11, made by scripts/measure/record_zoo.py with "ckpt" and "ckpt_modules".
func TestCheckpointsAsRecorded(t *testing.T) {
	const allocatedWithin, reservedWithin = 0.005, 0.022 // the most is 0.33 and 2.14 %, of swin_t
	for _, c := range []struct {
		model               string
		batch               int64
		modules             string
		reentrant           bool
		allocated, reserved int64
	}{
		{"resnet50", 16, `layer\d\.\d+`, true, 1121167872, 1306525696},
		{"vit_b_16", 8, `encoder\.layers\.[^.]+`, true, 1809530368, 2017460224},
		{"gpt2", 4, `m\.transformer\.h\.\d+`, true, 3303260160, 4339007488},
		{"swin_t", 8, `features\.[1357]\.\d+`, true, 795129856, 998244352},
		{"resnet50", 16, `layer\d(\.\d+)?`, true, 1105924608, 1337982976},
		{"vit_b_16", 8, `encoder\.layers\.[^.]+(\.mlp)?`, true, 1810447872, 2017460224},
		{"gpt2", 4, `m\.transformer\.h\.\d+(\.mlp)?`, true, 3301411840, 4339007488},
		{"swin_t", 8, `features\.[1357](\.\d+)?`, true, 805711360, 1019215872},
		{"resnet50", 16, `layer\d(\.\d+)?`, false, 999995904, 1115684864},
		{"vit_b_16", 8, `encoder\.layers\.[^.]+(\.mlp)?`, false, 1810570752, 2017460224},
		{"gpt2", 4, `m\.transformer\.h\.\d+(\.mlp)?`, false, 3301660672, 4318035968},
		{"swin_t", 8, `features\.[1357](\.\d+)?`, false, 779892736, 979369984},
	} {
		bound, err := Bind(openModel(t, c.model, formOf(c.model)), Options{Batch: c.batch})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := bound.Simulate(Step{Plan: program.Plan{Checkpoint: c.modules, Reentrant: c.reentrant}})
		if err != nil {
			t.Errorf("%s, %s: %v", c.model, c.modules, err)
			continue
		}
		a, r := rel(sim.Peak.Allocated, c.allocated), rel(sim.Peak.Reserved, c.reserved)
		if math.Abs(a) > allocatedWithin || math.Abs(r) > reservedWithin {
			t.Errorf("%s, %s, reentrant %v: %d allocated, %d reserved: %+.2f %% and %+.2f %% of the recording", c.model,
				c.modules, c.reentrant, sim.Peak.Allocated, sim.Peak.Reserved, 100*a, 100*r)
		}
	}
}

// TestAdaptersOfWholeNames estimates adapters from an export that names all modules of every node: that of the built-in
// model was made smaller by cutting such names off.
func TestAdaptersOfWholeNames(t *testing.T) {
	const measured = 13956546560
	bound, err := Bind(openGraph(t, "testdata/beyond", "qwen2_0_5b", "dynamo-train"), Options{Batch: 4})
	if err != nil {
		t.Fatal(err)
	}
	sim, err := bound.Simulate(Step{Settings: torch.Settings{Precision: torch.FP32},
		Plan: program.Plan{LoRA: "r=16,targets=q_proj|v_proj"}})
	if err != nil {
		t.Fatal(err)
	}
	if off := rel(sim.Peak.Reserved, measured); math.Abs(off) > 0.001 {
		t.Errorf("%d reserved, %+.2f %% of what was measured", sim.Peak.Reserved, 100*off)
	}
}
