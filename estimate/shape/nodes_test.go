package shape

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// A nodeTest is one of ONNX's own operator tests.
type nodeTest struct {
	name    string
	data    []byte
	outputs []trueOutput
}

// A trueOutput is an output as the reference implementation computed it.
type trueOutput struct {
	name  string
	other bool // a sequence or an optional: otherTypes has its type
	elem  onnxload.DType
	dims  []int64
}

func (o *trueOutput) UnmarshalJSON(b []byte) error {
	elem := 0
	err := json.Unmarshal(b, &[]any{&o.name, &elem, &o.dims})
	o.elem, o.other = onnxload.DType(max(elem, 0)), elem < 0
	return err
}

// nodeTests reads the archives of testdata; see testdata/README.md.
var nodeTests = sync.OnceValues(func() ([]nodeTest, error) {
	var tests []nodeTest
	for _, path := range []string{"testdata/onnx-nodes.tar.gz", "testdata/onnx-nodes-more.tar.gz"} {
		more, err := readNodeTests(path)
		if err != nil {
			return nil, err
		}
		tests = append(tests, more...)
	}
	slices.SortFunc(tests, func(a, b nodeTest) int { return strings.Compare(a.name, b.name) })
	return tests, nil
})

// readNodeTests reads one archive.
func readNodeTests(path string) ([]nodeTest, error) {
	file, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	z, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	var truth map[string][]trueOutput
	var tests []nodeTest
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		if h.Name == "truth.json" {
			if err := json.Unmarshal(data, &truth); err != nil {
				return nil, err
			}
			continue
		}
		tests = append(tests, nodeTest{name: strings.TrimSuffix(h.Name, ".onnx"), data: data})
	}
	for i := range tests {
		tests[i].outputs = truth[tests[i].name]
		if len(tests[i].outputs) == 0 {
			return nil, fmt.Errorf("%s: no outputs of %s", path, tests[i].name)
		}
	}
	return tests, nil
}

// dataDependent lists the tests whose output sizes follow from the values of inputs that the
// model does not contain, by operator. What can be said of those sizes is whether they have a limit.
var dataDependent = map[string]struct {
	limited bool
	why     string
}{
	"nonmaxsuppression": {true, "boxes are kept by their scores and overlaps"},
	"range":             {false, "the number of elements is in start, limit and delta"},
	"unique":            {true, "equal slices are merged"},
}

// dependsOnData names the entry of dataDependent that a test belongs to.
var dependsOnData = map[string]string{
	"test_nonmaxsuppression_center_point_box_format":    "nonmaxsuppression",
	"test_nonmaxsuppression_flipped_coordinates":        "nonmaxsuppression",
	"test_nonmaxsuppression_identical_boxes":            "nonmaxsuppression",
	"test_nonmaxsuppression_iou_threshold_boundary":     "nonmaxsuppression",
	"test_nonmaxsuppression_limit_output_size":          "nonmaxsuppression",
	"test_nonmaxsuppression_single_box":                 "nonmaxsuppression",
	"test_nonmaxsuppression_suppress_by_IOU":            "nonmaxsuppression",
	"test_nonmaxsuppression_suppress_by_IOU_and_scores": "nonmaxsuppression",
	"test_nonmaxsuppression_two_batches":                "nonmaxsuppression",
	"test_nonmaxsuppression_two_classes":                "nonmaxsuppression",
	"test_range_bfloat16_type_positive_delta":           "range",
	"test_unique_bfloat16_sorted_without_axis":          "unique",
	"test_unique_not_sorted_without_axis":               "unique",
	"test_unique_sorted_with_axis":                      "unique",
	"test_unique_sorted_with_axis_3d":                   "unique",
	"test_unique_sorted_with_negative_axis":             "unique",
	"test_unique_sorted_without_axis":                   "unique",
}

// otherTypes has, by test and output, the types of outputs that are no tensors. The archives say
// only that they are not; these follow from the operators' specifications and the types of the inputs.
var otherTypes = map[string]map[string]string{
	"test_identity_opt":      {"opt_out": "optional(sequence(float32[5]))"},
	"test_identity_sequence": {"y": "sequence(float32[...])"}, // as its input
	"test_if_opt":            {"sequence": "optional(sequence(float32[5]))"},
	"test_if_seq":            {"res": "sequence(float32[5])"},
	// Vectors join a sequence whose elements are declared to be scalars.
	"test_loop13_seq":                                    {"seq_res": "sequence(float32[...])"},
	"test_loop16_seq_none":                               {"seq_res": "sequence(float32[...])"},
	"test_sequence_insert_at_back":                       {"output_sequence": "sequence(int64[...])"},
	"test_sequence_insert_at_front":                      {"output_sequence": "sequence(int64[...])"},
	"test_sequence_map_add_1_sequence_1_tensor_expanded": {"y0": "sequence(float32[?])"},
	"test_sequence_map_add_2_sequences_expanded":         {"y0": "sequence(float32[?])"},
	"test_sequence_map_extract_shapes_expanded":          {"shapes": "sequence(int64[3])"},
	"test_sequence_map_identity_1_sequence_expanded":     {"y": "sequence(float32[?])"},
	"test_sequence_map_identity_1_sequence_1_tensor_expanded": {"y0": "sequence(float32[?])",
		"y1": "sequence(float32[?])"},
	"test_sequence_map_identity_2_sequences_expanded": {"y0": "sequence(float32[?])",
		"y1": "sequence(float32[?])"},
	"test_split_to_sequence_1":          {"seq": "sequence(float32[3, 2])"},
	"test_split_to_sequence_2":          {"seq": "sequence(float32[?, 6])"}, // 1 and 2 rows
	"test_split_to_sequence_nokeepdims": {"seq": "sequence(float32[3])"},
}

// withoutRow reports whether the table has no row for an operator, deliberately: no graph that is trained has it. Those
// are the operators of classical models, of text, images as files, signals' preparation, caches of generated text and
// optional values, and the preview domains.
func withoutRow(domain, name string) bool {
	switch name {
	case "BitCast", "BlackmanWindow", "CausalConvWithState", "CenterCropPad", "Compress", "Det", "HammingWindow",
		"HannWindow", "ImageDecoder", "LinearAttention", "MaxRoiPool", "MaxUnpool", "MelWeightMatrix", "Optional", "OptionalGetElement", "OptionalHasElement",
		"RegexFullMatch", "SequenceErase", "SequenceMap", "StringConcat",
		"StringNormalizer", "StringSplit", "TensorScatter", "TfIdfVectorizer":
		return true
	}
	return domain == "ai.onnx.ml" || strings.HasPrefix(domain, "ai.onnx.preview")
}

// Every operator test is exact, except where the sizes are not in the model at all; those
// are open in just the dimensions concerned, with a limit where there is one.
func TestOnnxNodes(t *testing.T) {
	tests, err := nodeTests()
	must.OK(t, err)
	exact, open, unknown := 0, 0, 0
	for _, test := range tests {
		kind, data := dependsOnData[test.name]
		limits, err := checkNodeTest(test)
		switch {
		case errors.Is(err, errWithoutRow), test.name == "test_scan_sum": // of opset 8
			unknown++
		case err != nil:
			t.Errorf("%s: %v", test.name, err)
		case limits == nil && !data:
			exact++
		case limits == nil:
			t.Errorf("%s is exact, but listed: %s", test.name, dataDependent[kind].why)
		case !data:
			t.Errorf("%s leaves %d dimensions open", test.name, len(limits))
		default:
			open++
			for _, limited := range limits {
				if limited != dataDependent[kind].limited {
					t.Errorf("%s: a dimension with a limit: %v, want %v", test.name, limited, dataDependent[kind].limited)
				}
			}
		}
	}
	t.Logf("%d of %d models have exactly the true output shapes and types, %d depend on data, %d have operators without a "+
		"row", exact, len(tests), open, unknown)
	if len(tests) != 977+1056 || open != len(dependsOnData) || unknown > 154 {
		t.Errorf("%d tests, %d of them open, %d without rows; want 977+1056, %d and at most 154", len(tests), open, unknown,
			len(dependsOnData))
	}
}

var errWithoutRow = errors.New("an operator without a row")

// checkNodeTest compares the types of a test's outputs with the true ones. A dimension that
// inference leaves open is reported by whether it has a limit, which must hold.
func checkNodeTest(test nodeTest) (limits []bool, err error) {
	m, err := onnxload.Read(bytes.NewReader(test.data), int64(len(test.data)), onnxload.Options{})
	if err != nil {
		return nil, err
	}
	r, err := Infer(m, Options{})
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(r.Unknown, func(u UnknownOp) bool { return !withoutRow(u.Domain, u.Op) }) {
		return nil, fmt.Errorf("operators without a row: %v", r.Unknown)
	}
	if len(r.Unknown) > 0 {
		return nil, errWithoutRow
	}
	for _, want := range test.outputs {
		i := slices.IndexFunc(m.Graph.Outputs, func(id onnxload.ValueID) bool { return m.Values[id].Name == want.name })
		if i < 0 {
			return nil, fmt.Errorf("no output %q", want.name)
		}
		got := r.Type(m.Graph.Outputs[i])
		if want.other {
			if have, other := got.String(), otherTypes[test.name][want.name]; have != other {
				return nil, fmt.Errorf("output %q is %s, want %q", want.name, have, other)
			}
			continue
		}
		wrong := fmt.Errorf("output %q is %v, want %v%v", want.name, got, want.elem, want.dims)
		if got.Elem != want.elem || !got.Shape.Ranked || len(got.Shape.Dims) != len(want.dims) {
			return nil, wrong
		}
		for j, d := range got.Shape.Dims {
			if n, ok := d.Int(); ok {
				if n != want.dims[j] {
					return nil, wrong
				}
				continue
			}
			limit, limited := d.Most()
			if limited && limit < want.dims[j] {
				return nil, fmt.Errorf("%w: at most %v", wrong, limit)
			}
			limits = append(limits, limited)
		}
	}
	return limits, nil
}
