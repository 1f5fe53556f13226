package estimate

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
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
