package estimate

import (
	"math"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/test/must"
)

// TestAdaptersOfWholeNames estimates adapters from an export that names all modules of every node: that of the built-in
// model was made smaller by cutting such names off.
func TestAdaptersOfWholeNames(t *testing.T) {
	const measured = 13956546560
	bound, err := Bind(openGraph(t, "testdata/beyond", "qwen2_0_5b", "dynamo-train"), Options{Batch: 4})
	must.OK(t, err)
	sim, err := bound.Simulate(Step{Settings: torch.Settings{Precision: torch.FP32},
		Plan: program.Plan{LoRA: "r=16,targets=q_proj|v_proj"}})
	must.OK(t, err)
	if off := rel(sim.Peak.Reserved, measured); math.Abs(off) > 0.001 {
		t.Errorf("%d reserved, %+.2f %% of what was measured", sim.Peak.Reserved, 100*off)
	}
}
