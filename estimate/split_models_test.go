package estimate

import (
	"math"
	"testing"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// A splitCase is a measured step of a model that two GPUs share.
type splitCase struct {
	beyondCase
	DropOutput bool `json:"drop_output"`
}

// splitCases are steps that were measured on two H200s, by scripts/measure/split_models.py.
func splitCases(t *testing.T) []splitCase {
	t.Helper()
	var all struct {
		Cases []splitCase `json:"cases"`
	}
	testfile.JSON(t, "testdata/beyond/split.json.gz", &all)
	return all.Cases
}

// Tensor parallelism is answered by recordings: what they allocate is what was measured, within 0.5 %.
func TestTensorParallelRecorded(t *testing.T) {
	held := 0
	for _, c := range splitCases(t) {
		if c.Parallel != "tp" || c.Rank != 0 || c.Model == "qwen2_0_5b" || c.DType == "bf16" != (c.Model == "llama_160m") {
			continue // of these steps no recording is kept
		}
		r, err := Recorded(openRecordingAt(t, "testdata/beyond/"+c.Model+"-tp.mrec"), Options{Name: c.Model})
		must.OK(t, err)
		got := &r.Simulation.Peak
		if held++; math.Abs(rel(got.Allocated, c.PeakAlloc)) > 0.005 || math.Abs(rel(got.Reserved, c.PeakReserved)) > 0.03 {
			t.Errorf("%s: %d allocated and %d reserved, measured %d and %d", c.name(), got.Allocated, got.Reserved,
				c.PeakAlloc, c.PeakReserved)
		}
	}
	if held != 3 {
		t.Errorf("%d recordings, want 3", held)
	}
}

// TestSplitModels holds offloaded shards and static graphs against measured steps, after the predictions for them had
// been put away.
func TestSplitModels(t *testing.T) {
	var all []outcome
	for _, c := range splitCases(t) {
		if c.Rank > 0 || c.Parallel == "tp" {
			continue // both ranks took the same, or a recording answers
		}
		bound, step := c.bind(t)
		step.Plan.Shard = ""
		step.DropOutput = c.DropOutput
		sim, err := bound.Simulate(step)
		must.OK(t, err)
		got := &sim.Peak
		o := outcome{c: c.measuredCase, alloc: rel(got.Allocated, c.PeakAlloc),
			reserved: rel(got.Reserved, c.PeakReserved), device: rel(got.Device, c.SMI<<20)}
		all = append(all, o)
		t.Logf("%-5s %-40s allocated %+.2f %% reserved %+.2f %% device %+.2f %%", c.Parallel, c.name(), 100*o.alloc,
			100*o.reserved, 100*o.device)
		if got.UpperBound < c.SMI<<20 {
			t.Errorf("%s %s: at most %d on the device, measured %d MiB", c.Parallel, c.name(), got.UpperBound, c.SMI)
		}
	}
	a, r, d := spreadOf(all, allocated), spreadOf(all, reserved), spreadOf(all, func(o outcome) float64 { return o.device })
	t.Logf("%2d cases  allocated %v  reserved %v  device %v", len(all), a, r, d)
	want := [2]spread{{0.5, 1, 1}, {3, 4, 4}}
	if len(all) == 0 || a.median > want[0].median || a.p90 > want[0].p90 || a.worst > want[0].worst ||
		r.median > want[1].median || r.p90 > want[1].p90 || r.worst > want[1].worst || d.median > 2 {
		t.Errorf("want at most allocated %v, reserved %v, and 2 %% on the device", want[0], want[1])
	}
}
