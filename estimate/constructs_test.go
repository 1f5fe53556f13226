package estimate

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/test/testfile"
)

// TestConstructs holds exports of small models, each with one construct of published code, and of modules of published
// code, against recordings of the same steps: what recovery and lifetimes read is exact, but where a limit below says
// why not. Exports and recordings are made by scripts/measure/constructs.py.
func TestConstructs(t *testing.T) {
	const exact = 0.0001
	within := map[string]float64{
		"function train":         0.08,  // the backward of a torch.autograd.Function is not in the file
		"spikes train":           0.086, // what the last step computes for a next one, which no export has
		"spikes infer":           0.165, // TorchScript's has no lines
		"spectral_norm train":    0.01,  // a weight's norm is taken to make what the file shows
		"spectral_norm infer":    0.001,
		"weights infer":          0.012,  // what a function without lines holds while it runs
		"bags train":             0.0005, // offsets that an optimizer computed
		"bags infer":             0.011,  // ids that one expression computes, and whose variable is read once
		"quantized train":        0.033,  // detach() of a body that torch.export traces anew, which the default export drops
		"quantized infer":        0.151,  // what such a body holds while it runs
		"sampled infer":          0.042,  // TorchScript's has no lines, and four variables until it samples
		"drawn infer":            0.028,  // likewise: what is drawn is a variable of a loop
		"skipped infer":          0.024,  // as sampled: the mask and what it is of are of one expression
		"segments infer":         0.279,  // what checkpoint_sequential's own functions hold
		"dropped train":          0.004,  // two turns that the optimiser cancels, and the variable between them
		"dropped infer":          0.013,  // likewise
		"encoder train":          0.0003, // biases of zeros, which the optimiser drops
		"encoder infer":          0.014,  // likewise, and the workspace of cublasLt that a product with a bias has
		"gpt2_layers train":      0.008,
		"gpt2_layers infer":      0.0192,
		"timm_vit train":         0.0004,
		"timm_vit infer":         0.0003,
		"mixed_attention train":  0.052, // scores, which the function that mixes them holds while it runs
		"mixed_attention infer":  0.07,
		"knots infer":            0.011,  // TorchScript's has no lines, and a variable that it lengthens
		"spectra train":          0.005,  // 128 KiB of blocks that the allocator does not split
		"windows infer":          0.0002, // 6 KiB of the norm that is folded
		"spectra infer":          0.0014, // the filter's halves, which the default export has taken apart
		"self_loops train":       0.0005, // places of the loops, which the optimiser makes a buffer
		"self_loops infer":       0.1473, // TorchScript's has no lines: what each turn makes it holds to the end of the turn
		"turned_attention train": 0.0014, // biases of zeros, which the optimiser drops
		// published code
		"glowtts train":    0.008,
		"glowtts infer":    0.2,  // a function without lines: relative positions, of which it holds more than is known
		"qanet infer":      0.17, // self.attn keeps weights, and two functions without lines
		"sepformer train":  0.001,
		"sepformer infer":  0.069,
		"vitpytorch infer": 0.13, // weights = attention_probs if self.vis else None: no export says which
		"torchkan train":   0.001,
		"torchkan infer":   0.002,
		"convkan train":    0.0004,
		"convkan infer":    0.016,
	}
	for _, c := range constructCases(t) {
		b, err := Bind(openGraph(t, c.dir, c.model, c.form), Options{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		sim, err := b.Simulate(c.step)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		kind := c.model + " train"
		if c.step.Infer {
			kind = c.model + " infer"
		}
		limit := max(within[kind], exact)
		if off := rel(sim.Peak.Allocated, c.measured); math.Abs(off) > limit {
			t.Errorf("%s: %d allocated, %+.2f %% of the recording's %d, limit %.2f %%", c.name, sim.Peak.Allocated,
				100*off, c.measured, 100*limit)
		}
	}
}

// constructCases are the exports of those models, with what their recordings allocate. What they reserve is not kept.
func constructCases(t *testing.T) []asked {
	t.Helper()
	return append(constructsIn(t, "testdata/constructs"), constructsIn(t, "testdata/constructs_published")...)
}

// constructsIn are the exports of one folder.
func constructsIn(t *testing.T, dir string) (cases []asked) {
	t.Helper()
	var recorded map[string]map[string]int64 // by model and mode: what is allocated at the peak
	testfile.JSON(t, dir+"/recorded.json", &recorded)
	files, err := filepath.Glob(dir + "/*.onnx.zst")
	if err != nil || len(files) < len(recorded) {
		t.Fatalf("%d exports of %d models, %v", len(files), len(recorded), err)
	}
	for _, file := range files {
		model, form, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".onnx.zst"), ".")
		for _, mode := range []string{"train", "infer", "amp"} {
			if recorded[model][mode] == 0 && mode == "amp" {
				continue // recorded in float32 alone
			}
			precision := torch.FP32
			if mode == "amp" {
				precision = torch.AMPBF16
			}
			cases = append(cases, asked{name: "construct: " + model + " " + mode + " " + form, model: model, form: form,
				dir: dir, step: Step{Settings: torch.Settings{Loss: "mean", Precision: precision}, Infer: mode == "infer"},
				measured: recorded[model][mode]})
		}
	}
	return cases
}
