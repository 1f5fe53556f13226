package fromonnx_test

import (
	"testing"

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
