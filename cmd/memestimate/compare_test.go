package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/snapshot/compare"
	"github.com/memestimate/memestimate/test/must"
)

// A recording of PyTorch's tutorial, resnet50 with one image: the prediction is close, and the
// parameters that were there before the recording are told to be unknown.
func TestCompareMeasured(t *testing.T) {
	var out, errs bytes.Buffer
	e := &env{stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code := run(t.Context(), e, []string{"compare", "resnet50", "../../snapshot/testdata/resnet50_seed.pickle.gz",
		"--batch", "1", "--optimizer", "sgdm", "--format", "json"})
	if code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var c compare.Comparison
	must.OK(t, json.Unmarshal(out.Bytes(), &c))
	for _, d := range c.Peaks {
		if off := math.Abs(float64(d.Difference)) / float64(d.Measured); off > 0.03 ||
			d.Difference != d.Predicted-d.Measured {
			t.Errorf("%s: predicted %d, measured %d", d.Name, d.Predicted, d.Measured)
		}
	}
	if c.Peaks[0].Measured != 449816064 || c.Peaks[1].Measured != 478150656 {
		t.Errorf("measured %+v", c.Peaks)
	}
	known := map[string]compare.Difference{}
	for _, d := range append(c.Categories, c.Phases...) {
		known[d.Name] = d
	}
	if d := known["optimizer_state"]; d.Difference != 0 || d.Measured != 102228128 {
		t.Errorf("the momentum is %+v", d)
	}
	if d := known["last backward"]; d.Measured == 0 || math.Abs(float64(d.Difference)) > 0.03*float64(d.Measured) {
		t.Errorf("the last backward pass is %+v", d)
	}
	if len(c.Notes) == 0 || len(c.Tensors) == 0 || len(c.Layers) != 0 {
		t.Errorf("%d notes, %d sizes, %d layers", len(c.Notes), len(c.Tensors), len(c.Layers))
	}
	// Of the first step nearly everything is alike. The convolutions that cuDNN gave another algorithm part first: before
	// layer2.0.bn3 one took a workspace of 480 bytes that is not predicted.
	switch k := c.Course; {
	case k == nil || k.PredictedStep != 1 || k.MeasuredStep != 1 || k.Measured != 1495 || 10*k.Alike < 9*k.Predicted:
		t.Errorf("the step is %+v", k)
	case k.First == nil || k.First.MeasuredEvent != 69 || k.First.Phase != "forward" ||
		k.First.Layer != "layer2.0.bn3" || k.First.Site != "modules/conv.py:548:_conv_forward" ||
		k.First.PredictedMost != 0 || k.First.MeasuredMost != 480:
		t.Errorf("the runs part first at %+v", k.First)
	case len(k.Partings) != compare.MostGaps || len(k.Modules) < 100:
		t.Errorf("%d places, %d modules", len(k.Partings), len(k.Modules))
	}
	for i := 1; i < len(c.Tensors); i++ {
		if math.Abs(float64(c.Tensors[i].Difference)) > math.Abs(float64(c.Tensors[i-1].Difference)) {
			t.Errorf("disagreement %d is larger than the one before", i)
		}
	}
}

// A recording of nothing is no measurement: nothing is said to be far off, or learnt from it.
func TestCompareWithNothing(t *testing.T) {
	empty := []byte("\x80\x02}(X\x08\x00\x00\x00segments]X\x0d\x00\x00\x00device_traces](]eu.")
	out, errs := call(t, empty, exitInput, "compare", "mlp", "-", "--batch", "2")
	if out != "" || errs != "memestimate: -: it shows no allocation of device 0: there is nothing to compare with\n" {
		t.Errorf("%q, %q", out, errs)
	}
}

// Of a model so large that its run is set aside where nobody asks for it, a comparison does.
func TestCompareLarge(t *testing.T) {
	const nodes = 20_000
	g := Graph{In: []Value{Float("x0", 4)}, Out: []Value{{Name: fmt.Sprint("x", nodes)}}}
	for i := range nodes {
		g.Nodes = append(g.Nodes, Op("Neg", fmt.Sprint("x", i), fmt.Sprint("x", i+1)))
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	write(t, path, string(Model{Opset: 17, Graph: g}.Bytes()))
	out, _ := call(t, nil, exitOK, "compare", path, filepath.Join(recorded, "odd", "oomfrag.pickle"))
	if !strings.Contains(out, "peak") {
		t.Errorf("%.300s", out)
	}
}
