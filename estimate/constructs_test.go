package estimate

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/eager"
)

// TestConstructs holds exports of small models, each with one construct of published code, against recordings of the
// same steps: what recovery and lifetimes read is exact, but where a limit below says why not. Exports and recordings
// are made by scripts/measure/constructs.py.
func TestConstructs(t *testing.T) {
	const exact = 0.0001
	within := map[string]float64{
		"function train":      0.08, // the backward of a torch.autograd.Function is not in the file
		"spectral_norm train": 0.01, // a weight's norm is taken to make what the file shows
		"spectral_norm infer": 0.001,
		"weights infer":       0.012, // what a function without lines holds while it runs
	}
	b, err := os.ReadFile("testdata/constructs/recorded.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded map[string]map[string]int64 // by model and mode: what is allocated at the peak
	if err := json.Unmarshal(b, &recorded); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("testdata/constructs/*.onnx.zst")
	if err != nil || len(files) < len(recorded) {
		t.Fatalf("%d exports of %d models, %v", len(files), len(recorded), err)
	}
	for _, file := range files {
		name, form, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".onnx.zst"), ".")
		bound, err := Bind(openGraph(t, "testdata/constructs", name, form), Options{})
		if err != nil {
			t.Errorf("%s %s: %v", name, form, err)
			continue
		}
		for mode, want := range recorded[name] {
			sim, err := bound.Simulate(Step{Settings: eager.Settings{Loss: "mean"}, Infer: mode == "infer"})
			if err != nil {
				t.Errorf("%s %s %s: %v", name, form, mode, err)
				continue
			}
			limit := max(within[name+" "+mode], exact)
			if off := rel(sim.Peak.Allocated, want); math.Abs(off) > limit {
				t.Errorf("%s %s %s: %d allocated, %+.2f %% of the recording's %d, limit %.2f %%", name, form, mode,
					sim.Peak.Allocated, 100*off, want, 100*limit)
			}
		}
	}
}
