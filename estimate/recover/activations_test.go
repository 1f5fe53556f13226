package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The activations that torch.export's exporter writes as several operators, whole and as optimizers leave them.
func TestWrittenOutActivations(t *testing.T) {
	inits := append([]onnx.Tensor{recovertest.F32s("large", 20), recovertest.F32s("zero", 0)}, geluConstants...)
	runPatterns(t, []patternCase{
		{name: "softplus and a program's own where", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"),
			onnx.Op("Greater", "x large", "g"), onnx.Op("Where", "g x p", "y")}, want: []string{"softplus(x)",
			"compare(x, number)", "where(g, x, p)"}},
		{name: "softplus of a program's own", inits: inits, nodes: []onnx.Node{onnx.Op("Softplus", "x", "p"),
			onnx.Op("Greater", "x large", "g"), onnx.Op("Where", "g p x", "y")}, want: []string{"softplus(x)",
			"compare(x, number)", "where(g, p, x)"}},
		{name: "selu, optimised", inits: inits, nodes: []onnx.Node{onnx.Op("Elu", "x", "val_3"),
			onnx.Op("Mul", "val_3 two", "y")}, want: []string{"elu(x)"}},
		{name: "an elu that is multiplied", inits: inits, nodes: []onnx.Node{onnx.Op("Elu", "x", "elu"),
			onnx.Op("Mul", "elu two", "y")}, want: []string{"elu(x)", "mul(elu, number)"}},
	})
}
