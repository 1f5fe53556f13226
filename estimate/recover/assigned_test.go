package recover_test

import (
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
