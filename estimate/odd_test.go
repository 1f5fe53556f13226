package estimate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The files of testdata/odd: each is refused for its own reason or has a peak, or a warning says why it has none.
func TestOddFiles(t *testing.T) {
	const ok = ""
	want := map[string]struct {
		refused string           // a part of the error
		note    string           // a part of a note
		dims    map[string]int64 // sizes to ask with
		inputs  map[string][]int64
	}{
		"dimension-minus-one": {ok, `dim 0 of "input_ids" is -1: read as not known`, nil,
			map[string][]int64{"input_ids": {2, 16}, "input_mask": {2, 16}}},
		"fusedmatmul-transbatch":    {ok, "", map[string]int64{"M": 8, "N": 8, "K": 8}, nil},
		"hint-that-fails-1":         {ok, "", map[string]int64{"M": 8, "K": 8, "N": 8, "C": 8}, nil},
		"hint-that-fails-2":         {`no size is given for "d_0"`, "", nil, nil},
		"loop-iteration-of-shape-1": {ok, "", nil, map[string][]int64{"data": {3, 4}}},
		"loop-slice-by-iteration":   {ok, "operator \"Loop\": 1 node has no PyTorch counterpart", nil, nil},
		"mha-bias": {ok,
			`operator "com.microsoft::MultiHeadAttention": 1 node has no PyTorch counterpart`, nil, nil},
		"no-opset-import":               {ok, "imports no version of ai.onnx", nil, nil},
		"optional-if":                   {ok, `there is no peak: value "y" has no shape`, nil, nil},
		"qdq":                           {ok, "computes in integers by its own nodes (QuantizeLinear)", nil, nil},
		"reduce-empty-axes":             {ok, "", nil, nil},
		"reduce-runtime-axes":           {ok, "", nil, nil},
		"biasadd-no-inputs":             {ok, `not modelled, "com.microsoft::BiasAdd": every total is a lower bound`, nil, nil},
		"crash-tied":                    {ok, "", nil, nil},
		"invalid-utf8-name":             {ok, "", nil, nil},
		"node-without-outputs":          {ok, "", nil, nil},
		"opset-negative":                {`version -5 of operator set "ai.onnx"`, "", nil, nil},
		"optionalgetelement-no-outputs": {ok, "", nil, nil},
		"reducemean-empty-axes":         {ok, "", nil, nil},
	}
	files, err := filepath.Glob("testdata/odd/*.onnx")
	if err != nil || len(files) != len(want) {
		t.Fatalf("%d files, want %d: %v", len(files), len(want), err)
	}
	for _, file := range files {
		w := want[strings.TrimSuffix(filepath.Base(file), ".onnx")]
		m, err := onnxload.Open(file)
		var r *Report
		if err == nil {
			r, err = Run(m, Options{Dims: w.dims, Inputs: w.inputs, Step: &Step{}})
			m.Close()
		}
		if w.refused != "" || err != nil {
			if err == nil || w.refused == "" || !strings.Contains(err.Error(), w.refused) {
				t.Errorf("%s: error %v, want one with %q", file, err, w.refused)
			}
			continue
		}
		notes := ""
		for _, n := range r.Notes {
			notes += n.Text + "\n"
		}
		if !strings.Contains(notes, w.note) {
			t.Errorf("%s: no note has %q:\n%s", file, w.note, notes)
		}
		if said := strings.Contains(notes, "there is no peak"); (r.Peak == nil) != said || r.Peak != nil &&
			r.Peak.Allocated <= 0 {
			t.Errorf("%s: peak %+v, and notes\n%s", file, r.Peak, notes)
		}
	}
}

// Nodes that are right and rarely written run under every setting.
func TestOddNodes(t *testing.T) {
	f32 := onnxtest.Float
	split := onnxtest.Op("Split", "x", "")
	split.Out = []string{"", "y", ""}
	for _, test := range []struct {
		name  string
		opset int64
		in    []onnxtest.Value
		node  onnxtest.Node
	}{
		{"a Split that leaves parts out", 11, []onnxtest.Value{f32("x", 6, 4)}, split},
		{"an Einsum whose letter stretches in the second operand", 17, []onnxtest.Value{f32("x", 2, 3, 4), f32("z", 2, 1, 5)},
			onnxtest.Op("Einsum", "x z", "y", onnxtest.A("equation", "bij,bik->bjk"))},
		{"an Einsum whose letters stretch and stay", 17, []onnxtest.Value{f32("x", 1, 3, 4), f32("z", 2, 3, 1)},
			onnxtest.Op("Einsum", "x z", "y", onnxtest.A("equation", "bij,bij->bij"))},
		{"an Einsum with an empty letter", 17, []onnxtest.Value{f32("x", 1, 3), f32("z", 0, 3)},
			onnxtest.Op("Einsum", "x z", "y", onnxtest.A("equation", "bi,bi->b"))},
		{"a slope for every channel before opset 7", 6, []onnxtest.Value{f32("x", 2, 3, 4, 5), f32("z", 3)},
			onnxtest.Op("PRelu", "x z", "y")},
		{"a factor too many", 17, []onnxtest.Value{f32("x", 2, 3), f32("z", 3)}, onnxtest.Op("Mul", "x z z", "y")},
		{"one slope", 6, []onnxtest.Value{f32("x", 2, 3), f32("z", 1)}, onnxtest.Op("PRelu", "x z", "y")},
	} {
		raw := onnxtest.Model{Opset: test.opset, Graph: onnxtest.Graph{In: test.in, Nodes: []onnxtest.Node{test.node},
			Out: []onnxtest.Value{{Name: "y"}}}}.Bytes()
		// All inferences run, once with the inputs for parameters, and all training that has a fitting loss.
		if runs := simulateAll(t, test.name, raw); runs < 10 {
			t.Errorf("%s: %d runs, want 10 or more", test.name, runs)
		}
	}
}
