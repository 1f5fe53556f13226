package fromonnx_test

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// ONNX's InstanceNormalization always has a scale and a bias: constants where the module has none.
func TestInstanceNormWithoutParameters(t *testing.T) {
	g := onnx.Graph{
		In: []onnx.Value{onnx.Float("x", 2, 4, 8, 4)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{onnx.Bare("norm.weight", onnxload.Float32, 4), onnx.Bare("norm.bias", onnxload.Float32, 4)},
		Nodes: []onnx.Node{
			onnx.Op("Constant", "", "ones", onnx.A("value", onnx.Float32s("", 1, 1, 1, 1))), onnx.Op("Constant", "", "zeros",
				onnx.A("value", onnx.Float32s("", 0, 0, 0, 0))),
			onnx.Op("InstanceNormalization", "x ones zeros", "plain"), onnx.Op("InstanceNormalization",
				"plain norm.weight norm.bias", "y"),
		},
	}
	wantCalls(t, mustRecover(t, g), "instance_norm(x, -, -)", "instance_norm(plain, norm.weight, norm.bias)")
}
