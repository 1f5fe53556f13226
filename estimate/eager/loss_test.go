package eager

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The criterion that a language model's graph calls for, with logits that are capped and without.
func TestLossOfLanguageModels(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  string
	}{
		{"logits", []onnx.Node{onnx.Op("MatMul", "h head.weight", "y")}, "cross-entropy"},
		{"capped logits", []onnx.Node{onnx.Op("MatMul", "h head.weight", "l"), onnx.Op("Div", "l cap", "d"), onnx.Op("Tanh", "d", "t"), onnx.Op("Mul", "t cap", "y")}, "cross-entropy"},
		{"logits of a convolution", []onnx.Node{onnx.Op("Transpose", "h", "t", onnx.A("perm", []int64{0, 2, 1})), onnx.Op("Conv", "t conv.weight", "c"), onnx.Op("Transpose", "c", "y", onnx.A("perm", []int64{0, 2, 1}))}, "cross-entropy"},
		{"features", []onnx.Node{onnx.Op("MatMul", "h head.weight", "l"), onnx.Op("Softmax", "l", "y")}, "mean"},
	} {
		p := mustRecover(t, onnx.Graph{
			In: []onnx.Value{onnx.Val("ids", onnxload.Int64, 2, 6)}, Inits: []onnx.Tensor{weights("e.weight", 50, 8), weights("head.weight", 8, 50), weights("conv.weight", 50, 8, 1), f32s("cap", 30)},
			Nodes: append([]onnx.Node{onnx.Op("Gather", "e.weight ids", "h")}, c.nodes...), Out: []onnx.Value{{Name: "y"}},
		})
		if got := autoLoss(p, []int64{2, 6, 50}); got != c.want {
			t.Errorf("%s: loss %q, wanted %q", c.name, got, c.want)
		}
	}
}
