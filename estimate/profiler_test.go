package estimate

import (
	"encoding/json"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/test/must"
)

// What torch.profiler's memory timeline shows at the peak of a steady step, by its own categories: the totals are
// within 2 %, and each category of more than 5 % of the peak is within 5 % of the total. The profiler starts in the
// third step, so it does not see the workspaces that cuBLAS keeps, and activations whose maker it does not know are
// "unknown".
func TestProfilerTimelines(t *testing.T) {
	for _, c := range []struct {
		file, model string
		batch       int64
		step        Step
	}{
		{"timeline_resnet50.json", "resnet50", 32, Step{Settings: torch.Settings{Optimizer: "sgdm", DropOutput: true}}},
		{"timeline_gpt2.json", "gpt2", 4, Step{Settings: torch.Settings{DropOutput: true}}},
	} {
		data := must.Read(t, "testdata/profiler/"+c.file)
		var want struct {
			Max   int64   `json:"max_memory_allocated"`
			Sizes []int64 `json:"sizes_at_peak"`
			Sum   int64   `json:"sum_at_peak"`
		}
		if err := json.Unmarshal(data, &want); err != nil || len(want.Sizes) != 9 {
			t.Fatalf("%s: %v", c.file, err)
		}
		r, err := Run(open(t, c.model), Options{Batch: c.batch, Step: &c.step})
		must.OK(t, err)
		by := r.Peak.ByCategory
		sum := r.Peak.Allocated - by["rounding"] // as requested
		got := map[string]int64{
			"parameter": by["parameter"] + by["buffer"], "optimizer_state": by["optimizer_state"], "input": by["input"],
			"temporary": by["temporary"],
			"gradient":  by["gradient"], "autograd_detail": by["autograd_detail"], "activation and unknown": by["activation"] +
				by["unknown"],
		}
		s := want.Sizes
		measured := map[string]int64{
			"parameter": s[1], "optimizer_state": s[2], "input": s[3], "temporary": s[4], "gradient": s[6],
			"autograd_detail": s[7], "activation and unknown": s[5] + s[8],
		}
		if e := rel(sum, want.Sum); e > 0.02 || e < -0.02 {
			t.Errorf("%s: %d in all at the peak, the profiler has %d: %+.2f %%", c.model, sum, want.Sum, 100*e)
		}
		if e := rel(r.Peak.Allocated, want.Max); e > 0.01 || e < -0.01 {
			t.Errorf("%s: %d allocated, measured %d: %+.2f %%", c.model, r.Peak.Allocated, want.Max, 100*e)
		}
		for name, n := range measured {
			if off := got[name] - n; n*20 > want.Sum && (off*20 > want.Sum || -off*20 > want.Sum) {
				t.Errorf("%s: %s is %d, the profiler has %d", c.model, name, got[name], n)
			}
		}
		t.Logf("%s: allocated %+.2f %%, total of the categories %+.2f %%", c.model, 100*rel(r.Peak.Allocated, want.Max),
			100*rel(sum, want.Sum))
	}
}
