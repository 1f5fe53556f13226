package estimate

import (
	"cmp"
	"testing"

	"github.com/memestimate/memestimate/estimate/program/parallel"
	"github.com/memestimate/memestimate/test/testfile"
)

// A splitCase is a measured step of a model that two GPUs share.
type splitCase struct {
	beyondCase
	Schedule     string `json:"schedule"`
	Microbatches int    `json:"microbatches"`
	DropOutput   bool   `json:"drop_output"`
}

// TestSplitModels holds tensor parallelism, pipelines, offloaded shards and static graphs against steps that were
// measured on two H200s, by scripts/measure/split_models.py, after the predictions for them had been put away. What
// followed from the comparison is what NCCL takes and that a static graph's old bucket is late: see docs/ACCURACY.md.
func TestSplitModels(t *testing.T) {
	var all struct {
		Cases []splitCase `json:"cases"`
	}
	testfile.JSON(t, "testdata/beyond/split.json.gz", &all)
	const settings = "cpu_offload and static_graph"
	limits := map[string][2]spread{
		parallel.TP: {{0.5, 0.5, 0.5}, {3, 3, 3}},
		parallel.PP: {{0.5, 0.5, 0.5}, {1, 1, 1}},
		settings:    {{0.5, 1, 1}, {3, 4, 4}},
	}
	groups := map[string][]outcome{}
	for _, c := range all.Cases {
		if c.Rank == 0 && c.Parallel == parallel.TP || c.Rank > 0 && c.Parallel != parallel.TP && c.Parallel != parallel.PP {
			continue // of these the other rank is answered for, or both took the same
		}
		bound, step := c.bind(t)
		plan := &step.Plan
		plan.Schedule, plan.Microbatches, plan.Shard = c.Schedule, c.Microbatches, ""
		step.DropOutput = c.DropOutput
		sim, err := bound.Simulate(step)
		if err != nil {
			t.Fatal(err)
		}
		got := Stage{Allocated: sim.Peak.Allocated, Reserved: sim.Peak.Reserved, Device: sim.Peak.Device,
			UpperBound: sim.Peak.UpperBound}
		if plan.Parallel == parallel.PP {
			got = sim.Stages[c.Rank]
		}
		o := outcome{c: c.measuredCase, alloc: rel(got.Allocated, c.PeakAlloc),
			reserved: rel(got.Reserved, c.PeakReserved), device: rel(got.Device, c.SMI<<20)}
		scheme := plan.Parallel
		if plan.Offload || plan.Static {
			scheme = settings
		}
		groups[scheme] = append(groups[scheme], o)
		t.Logf("%-5s %-40s rank %d allocated %+.2f %% reserved %+.2f %% device %+.2f %%", plan.Parallel,
			c.name()+" "+cmp.Or(c.Schedule, "")+" ", c.Rank, 100*o.alloc, 100*o.reserved, 100*o.device)
		if got.UpperBound < c.SMI<<20 {
			t.Errorf("%s %s: at most %d on the device, measured %d MiB", plan.Parallel, c.name(), got.UpperBound, c.SMI)
		}
	}
	for scheme, want := range limits {
		g := groups[scheme]
		a, r, d := spreadOf(g, allocated), spreadOf(g, reserved), spreadOf(g, func(o outcome) float64 { return o.device })
		t.Logf("%-5s %2d cases  allocated %v  reserved %v  device %v", scheme, len(g), a, r, d)
		if len(g) == 0 || a.median > want[0].median || a.p90 > want[0].p90 || a.worst > want[0].worst ||
			r.median > want[1].median || r.p90 > want[1].p90 || r.worst > want[1].worst || d.median > 2 {
			t.Errorf("%s: want at most allocated %v, reserved %v, and 2 %% on the device", scheme, want[0], want[1])
		}
	}
}
