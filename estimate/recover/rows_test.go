package recover_test

import (
	"math"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/test/must"
)

// A row names the inputs that ONNX gives its operator, in any of its versions. testdata/onnx-inputs.txt has them, as
// scripts/onnx_inputs.py wrote them with ONNX 1.23.2: ! for an input that every node has, ? for one that may be left
// out, + and * for any number of them from there on.
func TestRowsNameONNXInputs(t *testing.T) {
	data := must.Read(t, "testdata/onnx-inputs.txt")
	seen := 0
	for line := range strings.Lines(string(data)) {
		words := strings.Fields(line)
		f := recover.Facts("", words[0])
		if f == nil {
			continue
		}
		seen++
		least, most, required := 0, len(words)-1, uint32(0)
		for slot, sign := range words[1:] {
			if sign == "!" || sign == "+" {
				least, required = slot+1, required|1<<slot
			}
			if sign == "+" || sign == "*" {
				most = math.MaxInt
			}
		}
		if f.Least != least || f.Most != most || f.Required != required {
			t.Errorf("%s: %d to %d inputs of which %b are required; ONNX has %d to %d, and requires %b", words[0], f.Least,
				f.Most, f.Required, least, most, required)
		}
	}
	if seen < 150 {
		t.Errorf("only %d operators of ONNX have a row", seen)
	}
}
