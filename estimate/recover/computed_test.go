package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The weight of Gemma's norm is a difference from one, also where the exporter computed the sum.
func TestComputedShift(t *testing.T) {
	sum := onnx.Float("add_1", 8)
	sum.Meta = []onnxload.Entry{{Key: "pkg.onnxscript.optimizer.folded_from", Value: "['m.norm.weight', 'val_3']"}}
	p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-5), onnx.Int64s("axes", -1),
			onnx.Bare("add_1", onnxload.Float32, 8)}, Infos: []onnx.Value{sum},
		Nodes: []onnx.Node{onnx.Op("Pow", "x two", "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Reciprocal", "r", "i"),
			onnx.Op("Mul", "x i", "n"), onnx.Op("Mul", "n add_1", "y")}})
	wantCalls(t, p, "float(x)", "square(_)", "mean(_)", "add(_, number)", "rsqrt(_)", "mul(_, _)", "float(add_1)",
		"add(_, number)", "mul(_, _)", "type_as(_, x)")
}

// The mean square is of the dimension that the file names, which need not be the last: of channels before time.
func TestNormOfChannels(t *testing.T) {
	p := mustRecover(t, onnx.Graph{In: []onnx.Value{onnx.Float("x", 2, 4, 8)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-5), onnx.Int64s("axes", -2),
			onnx.Bare("m.weight", onnxload.Float32, 4, 1)},
		Nodes: []onnx.Node{onnx.Op("Pow", "x two", "sq"), onnx.Op("ReduceMean", "sq axes", "v"),
			onnx.Op("Add", "v eps", "ve"), onnx.Op("Sqrt", "ve", "r"), onnx.Op("Reciprocal", "r", "i"),
			onnx.Op("Mul", "x i", "n"), onnx.Op("Mul", "m.weight n", "y")}})
	wantCalls(t, p, "float(x)", "square(_)", "mean(_)", "add(_, number)", "rsqrt(_)", "mul(_, _)", "type_as(_, x)",
		"mul(m.weight, _)")
	if dims := p.Calls[2].Args.Dims; len(dims) != 1 || dims[0] != 1 {
		t.Errorf("the mean is over dimensions %v, want 1 alone", dims)
	}
}
