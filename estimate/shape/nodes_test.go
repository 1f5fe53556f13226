package shape

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
)

// A nodeTest is one of ONNX's own operator tests.
type nodeTest struct {
	name    string
	data    []byte
	outputs []trueOutput
}

// A trueOutput is an output as the reference implementation computed it.
type trueOutput struct {
	name string
	elem onnxload.DType
	dims []int64
}

func (o *trueOutput) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&o.name, &o.elem, &o.dims})
}

// nodeTests reads testdata/onnx-nodes.tar.gz; see testdata/README.md.
var nodeTests = sync.OnceValues(func() ([]nodeTest, error) {
	file, err := os.ReadFile("testdata/onnx-nodes.tar.gz")
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
		name := strings.TrimSuffix(h.Name, ".onnx")
		tests = append(tests, nodeTest{name, data, truth[name]})
	}
	slices.SortFunc(tests, func(a, b nodeTest) int { return strings.Compare(a.name, b.name) })
	return tests, nil
})

// dataDependent lists the tests whose output sizes follow from the values of inputs that the
// model does not contain, by operator. What can be said of those sizes is whether they have a limit.
var dataDependent = map[string]struct {
	limited bool
	why     string
}{
	"image_decoder":     {false, "the size is in the encoded image"},
	"nonmaxsuppression": {true, "boxes are kept by their scores and overlaps"},
	"range":             {false, "the number of elements is in start, limit and delta"},
	"string_split":      {false, "the longest row decides"},
	"string_split_max":  {true, "the longest row decides, up to maxsplit"},
	"strnormalizer":     {true, "stop words are dropped"},
	"unique":            {true, "equal slices are merged"},
}

// dependsOnData names the entry of dataDependent that a test belongs to.
var dependsOnData = map[string]string{
	"test_image_decoder_decode_pnm_rgb":                          "image_decoder",
	"test_image_decoder_decode_tiff_rgb":                         "image_decoder",
	"test_image_decoder_decode_webp_rgb":                         "image_decoder",
	"test_nonmaxsuppression_flipped_coordinates":                 "nonmaxsuppression",
	"test_nonmaxsuppression_identical_boxes":                     "nonmaxsuppression",
	"test_nonmaxsuppression_single_box":                          "nonmaxsuppression",
	"test_nonmaxsuppression_suppress_by_IOU_and_scores":          "nonmaxsuppression",
	"test_nonmaxsuppression_two_batches":                         "nonmaxsuppression",
	"test_nonmaxsuppression_two_classes":                         "nonmaxsuppression",
	"test_range_bfloat16_type_positive_delta":                    "range",
	"test_string_split_consecutive_delimiters":                   "string_split",
	"test_string_split_empty_string_delimiter":                   "string_split",
	"test_string_split_maxsplit":                                 "string_split_max",
	"test_strnormalizer_export_monday_casesensintive_lower":      "strnormalizer",
	"test_strnormalizer_export_monday_casesensintive_upper":      "strnormalizer",
	"test_strnormalizer_export_monday_empty_output":              "strnormalizer",
	"test_strnormalizer_export_monday_insensintive_upper_twodim": "strnormalizer",
	"test_unique_sorted_with_axis_3d":                            "unique",
}

// Every operator test is exact, except where the sizes are not in the model at all; those
// are open in just the dimensions concerned, with a limit where there is one.
func TestOnnxNodes(t *testing.T) {
	tests, err := nodeTests()
	if err != nil {
		t.Fatal(err)
	}
	exact, open := 0, 0
	for _, test := range tests {
		kind, data := dependsOnData[test.name]
		limits, err := checkNodeTest(test)
		switch {
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
	t.Logf("%d of %d models have exactly the true output shapes and types, %d depend on data", exact, len(tests), open)
	if len(tests) != 977 || open != len(dependsOnData) {
		t.Errorf("%d tests, %d of them open; want 977 and %d", len(tests), open, len(dependsOnData))
	}
}

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
	if len(r.Unknown) > 0 {
		return nil, fmt.Errorf("operators without a row: %v", r.Unknown)
	}
	for _, want := range test.outputs {
		i := slices.IndexFunc(m.Graph.Outputs, func(id onnxload.ValueID) bool { return m.Values[id].Name == want.name })
		if i < 0 {
			return nil, fmt.Errorf("no output %q", want.name)
		}
		got := r.Type(m.Graph.Outputs[i])
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
			limit, limited := r.Limit(d)
			if n, ok := limit.Int(); limited && (!ok || n < want.dims[j]) {
				return nil, fmt.Errorf("%w: at most %v", wrong, limit)
			}
			limits = append(limits, limited)
		}
	}
	return limits, nil
}
