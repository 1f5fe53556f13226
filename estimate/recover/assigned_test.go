package recover_test

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// x[mask] = number of a mask with the leading dimensions alone writes over x, one that is spread makes a new tensor.
func TestMaskOfLeadingDimensions(t *testing.T) {
	inits := []onnx.Tensor{recovertest.F32s("low", -1), recovertest.F32s("zero", 0), onnx.Int64s("last", -1)}
	choose := onnx.Op("Where", "mask low e", "y")
	compared := []onnx.Node{onnx.Op("Exp", "x", "e"), onnx.Op("Greater", "x zero", "mask"), choose}
	reduced := []onnx.Node{onnx.Op("Exp", "x", "e"), onnx.Op("ReduceSum", "x last", "s", onnx.A("keepdims", int64(0))),
		onnx.Op("Greater", "s zero", "mask"), choose}
	runPatterns(t, []patternCase{
		{name: "spread", inits: inits, nodes: compared, want: []string{"exp(x)", "compare(x, number)",
			"masked_fill(e, mask)"}},
		{name: "leading", inits: inits, nodes: reduced, want: []string{"exp(x)", "sum(x)", "compare(s, number)",
			"reshape(mask)", "masked_fill(e, _) in place"}},
	})
	for name, nodes := range map[string][]onnx.Node{"spread": compared, "leading": reduced} {
		p := mustRecover(t, patternCase{inits: inits, nodes: nodes}.graph())
		fill := p.Calls[len(p.Calls)-1]
		if len(p.Values[p.Outputs[0]].Shape) != 3 {
			t.Errorf("%s: %v", name, p.Values[p.Outputs[0]].Shape)
		}
		if mask := p.Values[fill.In[1]]; mask.DType != program.Bool {
			t.Errorf("%s: a mask of %v", name, mask.DType)
		}
	}
}

// y = x.clone(); y[1:] = part: exporters leave no node of the copy, and what reads x after the assignment shows it.
func TestAssignmentToACopy(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("at", 1, 2, 3), onnx.Int64s("column", 3, 1)}
	base, part := onnx.Op("Relu", "x", "base"), onnx.Op("Sigmoid", "top", "part")
	top := onnx.Op("Slice", "x from to axis", "top")
	inits = append(inits, onnx.Int64s("from", 0), onnx.Int64s("to", 3), onnx.Int64s("axis", 0))
	places, write := onnx.Op("Reshape", "at column", "places"), onnx.Op("ScatterND", "base places part", "first")
	again, exp := onnx.Op("ScatterND", "base places part", "second"), onnx.Op("Exp", "base", "e")
	before := []string{"relu(x)", "slice(x)", "sigmoid(top)"}
	after := func(nodes ...onnx.Node) []onnx.Node {
		return append([]onnx.Node{base, top, part, places}, nodes...)
	}
	runPatterns(t, []patternCase{
		{name: "read before", shape: []any{4, 8}, inits: inits,
			nodes: after(exp, write, onnx.Op("Mul", "e first", "y")),
			want:  append(slices.Clip(before), "exp(base)", "assign(base, part)", "mul(e, first)")},
		{name: "read after", shape: []any{4, 8}, inits: inits,
			nodes: after(write, exp, onnx.Op("Mul", "e first", "y")),
			want:  append(slices.Clip(before), "clone(base)", "assign(_, part)", "exp(base)", "mul(e, first)")},
		{name: "written twice", shape: []any{4, 8}, inits: inits,
			nodes: after(write, again, onnx.Op("Mul", "first second", "y")),
			want: append(slices.Clip(before), "clone(base)", "assign(_, part)", "clone(base)", "assign(_, part)",
				"mul(first, second)")},
	})
	returned := patternCase{shape: []any{4, 8}, inits: inits, nodes: after(write)}.graph()
	returned.Out = []onnx.Value{{Name: "base"}, {Name: "first"}}
	wantCalls(t, mustRecover(t, returned), append(slices.Clip(before), "clone(base)", "assign(_, part)")...)
}
