package recover_test

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Where a softmax is computed in float32 whatever the model's type, and cast back.
func TestSoftmaxInFloat32(t *testing.T) {
	up := func(in, out string) onnx.Node { return onnx.Op("Cast", in, out, onnx.A("to", 1)) }
	times := func(in string) onnx.Node { return onnx.Op("MatMul", in+" v", "y") }
	soft := func(in, out string) onnx.Node { return onnx.Op("Softmax", in, out, onnx.A("axis", -1)) }
	turn := onnx.Op("Transpose", "x", "v", onnx.A("perm", []int64{0, 2, 1}))
	exported := soft("x", "p")
	exported.Meta = append(exported.Meta, onnxload.Entry{Key: "namespace", Value: ": m.M/softmax: aten.softmax.int"})
	back := []string{"permute(x)", "softmax_float(x)", "type_as(_, x)"}
	runPatterns(t, []patternCase{
		{name: "dtype and to", nodes: []onnx.Node{turn, soft("x", "p"), up("p", "q"), up("q", "r"), times("r")},
			want: append(slices.Clone(back), "matmul(r, v)")},
		{name: "dtype in torch.export", nodes: []onnx.Node{turn, soft("x", "p"), up("p", "softmax"), times("softmax")},
			want: append(slices.Clone(back), "matmul(softmax, v)")},
		{name: "float and type_as", nodes: []onnx.Node{turn, up("x", "f"), soft("f", "p"), times("p")},
			want: append(slices.Clone(back), "matmul(p, v)")},
		{name: "type_as in torch.export", nodes: []onnx.Node{turn, soft("x", "type_as_2"), times("type_as_2")},
			want: append(slices.Clone(back), "matmul(type_as_2, v)")},
		{name: "probabilities that nothing multiplies", nodes: []onnx.Node{soft("x", "p"), up("p", "softmax"),
			onnx.Op("Neg", "softmax", "y")}, want: []string{"softmax_float(x)", "neg(softmax)"}},
		{name: "a cast behind in torch.export", nodes: []onnx.Node{turn, exported, up("p", "q"), times("q")},
			want: []string{"permute(x)", "softmax(x)", "to(p)", "matmul(q, v)"}},
	})
}
