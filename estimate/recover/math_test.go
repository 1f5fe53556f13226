package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A rectified tensor times itself is squared ReLU; another product of a tensor and itself stays one.
func TestSquaredRelu(t *testing.T) {
	runPatterns(t, []patternCase{
		{name: "relu", nodes: []onnx.Node{onnx.Op("Relu", "x", "r"), onnx.Op("Mul", "r r", "y")},
			want: []string{"relu(x)", "square(r)"}},
		{name: "read besides", nodes: []onnx.Node{onnx.Op("Relu", "x", "r"), onnx.Op("Mul", "r r", "s"),
			onnx.Op("Add", "s r", "y")}, want: []string{"relu(x)", "mul(r, r)", "add(s, r)"}},
		{name: "tanh", nodes: []onnx.Node{onnx.Op("Tanh", "x", "r"), onnx.Op("Mul", "r r", "y")},
			want: []string{"tanh(x)", "mul(r, r)"}},
	})
}

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
