package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Between Max and Min of one clamp is a value that an exporter named, and between those of a program's own one of its.
func TestClampOfOtherType(t *testing.T) {
	inits := []onnx.Tensor{recovertest.F32s("low", -4), recovertest.F32s("high", 3)}
	graph := func(between, max, min string) []onnx.Node {
		return []onnx.Node{onnx.Op("Max", max, between), onnx.Op("Min", between+" "+min, "y")}
	}
	runPatterns(t, []patternCase{
		{name: "clamp", inits: inits, nodes: graph("val_17", "x low", "high"), want: []string{"clamp(x)"}},
		{name: "two of the program's", inits: inits, nodes: graph("maximum", "x low", "high"),
			want: []string{"maximum(x, number)", "minimum(maximum, number)"}},
		{name: "bounded by a tensor", inits: inits, nodes: graph("val_17", "x low", "x"),
			want: []string{"maximum(x, number)", "minimum(val_17, x)"}},
	})
}
