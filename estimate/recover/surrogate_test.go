package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A comparison is a step with a surrogate gradient where weights would have no gradient but by that; a mask of values
// that train in another way, and one of what has no weights, are comparisons.
func TestSurrogateGradients(t *testing.T) {
	spike := []onnx.Node{onnx.Op("MatMul", "in first.weight", "u"), onnx.Op("Greater", "u one", "more"),
		onnx.Op("Cast", "more", "s", onnx.A("to", int64(onnxload.Float32)))}
	head := onnx.Op("MatMul", "s second.weight", "y")
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  []string
	}{
		{"spikes", append(spike, head), []string{"linear(in, first.weight, -)", "step_function(u)",
			"linear(s, second.weight, -)"}},
		{"a mask", append(spike, onnx.Op("Add", "u s", "m"), onnx.Op("MatMul", "m second.weight", "y")),
			[]string{"linear(in, first.weight, -)", "compare(u, number)", "add(u, more)",
				"linear(m, second.weight, -)"}},
		{"a mask of the input", []onnx.Node{onnx.Op("Greater", "in one", "more"), spike[2], head},
			[]string{"compare(in, number)", "to(more)", "linear(s, second.weight, -)"}},
		{"a threshold for each column", []onnx.Node{onnx.Op("MatMul", "in narrow.weight", "u"),
			onnx.Op("Greater", "u first.weight", "more"), spike[2], head},
			[]string{"linear(in, narrow.weight, -)", "compare(u, first.weight)", "to(more)",
				"linear(s, second.weight, -)"}},
	} {
		g := linesGraph(c.nodes...)
		g.Inits = []onnx.Tensor{onnx.Bare("first.weight", onnxload.Float32, 8, 8),
			onnx.Bare("narrow.weight", onnxload.Float32, 8, 1),
			onnx.Bare("second.weight", onnxload.Float32, 8, 8), onnx.Zeros("one", onnxload.Float32)}
		t.Run(c.name, func(t *testing.T) {
			wantCalls(t, mustRecover(t, g), c.want...)
		})
	}
}
