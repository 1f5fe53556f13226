package torch

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// The criterion that a language model's graph calls for, with logits that are capped and without.
func TestLossOfLanguageModels(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  string
	}{
		{"logits", []onnx.Node{onnx.Op("MatMul", "h head.weight", "y")}, "cross-entropy"},
		{"capped logits", []onnx.Node{onnx.Op("MatMul", "h head.weight", "l"), onnx.Op("Div", "l cap", "d"),
			onnx.Op("Tanh", "d", "t"), onnx.Op("Mul", "t cap", "y")}, "cross-entropy"},
		{"logits of a convolution", []onnx.Node{onnx.Op("Transpose", "h", "t", onnx.A("perm", []int64{0, 2, 1})),
			onnx.Op("Conv", "t conv.weight", "c"),
			onnx.Op("Transpose", "c", "y", onnx.A("perm", []int64{0, 2, 1}))}, "cross-entropy"},
		{"logits one by one", []onnx.Node{onnx.Op("Split", "h", "a b", onnx.A("axis", 1)),
			onnx.Op("MatMul", "a head.weight", "c"), onnx.Op("MatMul", "b head.weight", "d"),
			onnx.Op("Concat", "c d", "y", onnx.A("axis", 1))}, "cross-entropy"},
		{"features", []onnx.Node{onnx.Op("MatMul", "h head.weight", "l"), onnx.Op("Softmax", "l", "y")}, "mean"},
	} {
		p, err := recovertest.Recovered(onnx.Graph{
			In: []onnx.Value{onnx.Val("ids", onnxload.Int64, 2, 6)}, Inits: []onnx.Tensor{recovertest.Weights("e.weight", 50,
				8), recovertest.Weights("head.weight", 8, 50), recovertest.Weights("conv.weight", 50, 8,
				1), recovertest.F32s("cap", 30)},
			Nodes: append([]onnx.Node{onnx.Op("Gather", "e.weight ids", "h")}, c.nodes...), Out: []onnx.Value{{Name: "y"}},
		})
		must.OK(t, err)
		if got := autoLoss(p, p.Outputs[0], []int64{2, 6, 50}); got != c.want {
			t.Errorf("%s: loss %q, wanted %q", c.name, got, c.want)
		}
	}
}

// A detector's predictions for the anchors of several maps are classified, one map's are not told from a picture's
// features.
func TestLossOfDetectors(t *testing.T) {
	head := func(from, to string) []onnx.Node {
		return []onnx.Node{onnx.Op("Conv", from+" head.weight", to+"c"), onnx.Op("Reshape", to+"c flat", to+"f"),
			onnx.Op("Transpose", to+"f", to, onnx.A("perm", []int64{0, 2, 1}))}
	}
	small := onnx.Op("MaxPool", "x", "s", onnx.A("kernel_shape", []int64{2, 2}), onnx.A("strides", []int64{2, 2}))
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		shape []int64
		want  string
	}{
		{"two maps", slices.Concat([]onnx.Node{onnx.Op("Concat", "a b", "y", onnx.A("axis", 1)), small}, head("x", "a"),
			head("s", "b")), []int64{2, 80, 6}, "cross-entropy"},
		{"one map", append([]onnx.Node{onnx.Op("Relu", "a", "y")}, head("x", "a")...), []int64{2, 64, 6}, "mean"},
	} {
		p, err := recovertest.Recovered(onnx.Graph{
			In: []onnx.Value{onnx.Float("x", 2, 3, 8, 8)}, Inits: []onnx.Tensor{recovertest.Weights("head.weight", 6, 3, 1, 1),
				onnx.Int64s("flat", 2, 6, -1)},
			Nodes: append(c.nodes[1:], c.nodes[0]), Out: []onnx.Value{{Name: "y"}},
		})
		must.OK(t, err)
		if got := autoLoss(p, p.Outputs[0], c.shape); got != c.want {
			t.Errorf("%s: loss %q, wanted %q", c.name, got, c.want)
		}
	}
}
