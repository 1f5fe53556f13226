package recover_test

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

// GroupNormalization of opset 18 to 20 has a scale and a bias for each group, which no module of PyTorch has.
func TestGroupNormOfGroups(t *testing.T) {
	for _, tt := range []struct {
		name  string
		count int64 // of scales and biases
		want  []string
	}{
		{"channels", 4, []string{"group_norm(x, n.weight, n.bias)"}},
		{"groups", 2, []string{"group_norm(x, -, -)", "reshape(_)", "reshape(n.weight)", "mul(_, _)",
			"reshape(n.bias)", "add(_, _)", "reshape(_)"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := onnx.Graph{
				In: []onnx.Value{onnx.Float("x", 2, 4, 8, 4)}, Out: []onnx.Value{{Name: "y"}},
				Inits: []onnx.Tensor{onnx.Bare("n.weight", onnxload.Float32, tt.count),
					onnx.Bare("n.bias", onnxload.Float32, tt.count)},
				Nodes: []onnx.Node{onnx.Op("GroupNormalization", "x n.weight n.bias", "y", onnx.A("num_groups", 2))},
			}
			wantCalls(t, mustRecover(t, g), tt.want...)
		})
	}
}
