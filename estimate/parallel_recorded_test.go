package estimate

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/must"
)

// TestParallelAsRecorded holds what the flags for several GPUs say against recordings of PyTorch's own wrappers, made
// without a GPU: a step allocates the same within 0.5 %, and nine of ten reserve it. Figures of recordings are in
// testdata/beyond/recorded.json, which scripts/measure/record_zoo.py writes with --figures; some recordings are there
// as they are.
func TestParallelAsRecorded(t *testing.T) {
	var cases []beyondCase
	for _, raw := range rawCases(t, "testdata/beyond/recorded.json") {
		var c beyondCase
		must.OK(t, json.Unmarshal(raw, &c))
		cases = append(cases, c)
	}
	for _, c := range []struct {
		model, scheme string
		batch         int64
		dtype         string
	}{
		{"resnet50", program.DDP, 32, "fp32"}, {"convnext_tiny", program.FSDP, 16, "fp32"},
		{"convnext_tiny", program.ZeRO1, 16, "fp32"},
	} {
		r, err := Recorded(openRecordingAt(t, "testdata/beyond/"+c.model+"-"+c.scheme+".mrec"), Options{Name: c.model})
		must.OK(t, err)
		cases = append(cases, beyondCase{Parallel: c.scheme, measuredCase: measuredCase{Model: c.model, Mode: "train",
			DType: c.dtype, Opt: "adamw", Batch: c.batch, PeakAlloc: r.Simulation.Peak.Allocated,
			PeakReserved: r.Simulation.Peak.Reserved}})
	}
	if len(cases) != 87 {
		t.Fatalf("%d cases, want 84 and three recordings", len(cases))
	}
	var all []outcome
	for _, c := range cases {
		name := c.name() + " " + c.Parallel
		switch {
		case c.Checkpoint != nil:
			name += " bf16, checkpointed"
		case c.Reshard != nil:
			name += " bf16, not resharded"
		case c.Mixed != nil:
			name += " bf16"
		}
		bound, s := c.bind(t)
		sim, err := bound.Simulate(s)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		o := outcome{c: c.measuredCase, alloc: rel(sim.Peak.Allocated, c.PeakAlloc),
			reserved: rel(sim.Peak.Reserved, c.PeakReserved)}
		all = append(all, o)
		line := fmt.Sprintf("%-62s %12d recorded, by the flags %+.2f %%, reserved %+.2f %%", name, c.PeakAlloc, 100*o.alloc,
			100*o.reserved)
		if t.Log(line); math.Abs(o.alloc) > 0.005 {
			t.Error(line)
		}
	}
	r := spreadOf(all, reserved)
	t.Logf("%d cases: allocated %v, reserved %v", len(all), spreadOf(all, allocated), r)
	if r.p90 > 0.5 { // of swin_t, checkpointed, a block lies elsewhere
		t.Errorf("reserved %v, want 90 %% within 0.5 %%", r)
	}
}
