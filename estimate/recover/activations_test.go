package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The activations that torch.export's exporter writes as several operators, whole and as optimizers leave them.
func TestWrittenOutActivations(t *testing.T) {
	inits := append([]onnx.Tensor{recovertest.F32s("large", 20), recovertest.F32s("zero", 0)}, geluConstants...)
	neg := onnx.Op("Neg", "softplus", "y")
	shrunk := func(zero string) []onnx.Node {
		return []onnx.Node{onnx.Op("Abs", "x", "a"), onnx.Op("Greater", "a half", "g"), onnx.Op("Sign", "x", "s"),
			onnx.Op("Mul", "s half", "m"), onnx.Op("Sub", "x m", "d"), onnx.Op("Mul", "x "+zero, "z"),
			onnx.Op("Where", "g d z", "y")}
	}
	runPatterns(t, []patternCase{
		{name: "softplus", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"), onnx.Op("Greater", "x large",
			"g"), onnx.Op("Where", "g x p", "softplus"), neg}, want: []string{"softplus(x)", "neg(softplus)"}},
		{name: "softplus with beta", inits: inits, nodes: []onnx.Node{onnx.Op("Mul", "x two", "m"),
			onnx.Op("Softplus", "m", "p"), onnx.Op("Div", "p two", "d"), onnx.Op("Greater", "m large", "g"),
			onnx.Op("Where", "g x d", "softplus"), neg}, want: []string{"softplus(x)", "neg(softplus)"}},
		{name: "softplus and a program's own where", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"),
			onnx.Op("Greater", "x large", "g"), onnx.Op("Where", "g x p", "y")}, want: []string{"softplus(x)",
			"compare(x, number)", "where(g, x, p)"}},
		{name: "softplus of a program's own", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"),
			onnx.Op("Greater", "x large", "g"), onnx.Op("Where", "g p x", "y")}, want: []string{"softplus(x)",
			"compare(x, number)", "where(g, p, x)"}},
		{name: "softshrink", inits: inits, nodes: shrunk("zero"), want: []string{"hardshrink(x)"}},
		{name: "no softshrink", inits: inits, nodes: shrunk("two"), want: []string{"abs(x)", "compare(a, number)",
			"sign(x)", "mul(s, number)", "sub(x, m)", "mul(x, number)", "where(g, d, z)"}},
		{name: "selu, optimised", inits: inits, nodes: []onnx.Node{onnx.Op("Elu", "x", "val_3"),
			onnx.Op("Mul", "val_3 two", "y")}, want: []string{"elu(x)"}},
		{name: "an elu that is multiplied", inits: inits, nodes: []onnx.Node{onnx.Op("Elu", "x", "elu"),
			onnx.Op("Mul", "elu two", "y")}, want: []string{"elu(x)", "mul(elu, number)"}},
	})
}
