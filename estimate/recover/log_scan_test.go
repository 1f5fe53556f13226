package recover_test

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// torch.logcumsumexp and F.logsigmoid are known by the names that torch.export's exporter gives to what lies between;
// a program's own have those of calls.
func TestLogarithms(t *testing.T) {
	inits := []onnx.Tensor{onnx.Int64s("axis", 1), onnx.Int64s("dim", 1).Scalar()}
	scan := func(less, exp, sum string) []onnx.Node {
		return []onnx.Node{onnx.Op("ReduceMax", "x axis", "top"), onnx.Op("Sub", "x top", less),
			onnx.Op("Exp", less, exp), onnx.Op("CumSum", exp+" dim", sum), onnx.Op("Log", sum, "val_9"),
			onnx.Op("Add", "val_9 top", "y")}
	}
	own := scan("sub", "exp", "cumsum")
	runPatterns(t, []patternCase{
		{name: "logcumsumexp", inits: inits, nodes: scan("val_6", "val_7", "val_8"), want: []string{"logcumsumexp(x)"}},
		{name: "a program's own", inits: inits, nodes: own, want: []string{"max_dim(x)", "sub(x, top)", "exp(sub)",
			"cumsum(exp)", "log(cumsum)", "add(val_9, top)"}},
		{name: "another tensor's maximum", inits: inits, nodes: append([]onnx.Node{onnx.Op("Neg", "x", "n"),
			onnx.Op("ReduceMax", "n axis", "top")}, scan("val_6", "val_7", "val_8")[1:]...),
			want: []string{"neg(x)", "max_dim(n)", "sub(x, top)", "exp(val_6)", "cumsum(val_7)", "log(val_8)",
				"add(val_9, top)"}},
		{name: "logsigmoid", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "tmp_2"), onnx.Op("Log", "tmp_2", "y")},
			want: []string{"log_sigmoid(x)"}},
		{name: "a program's own sigmoid", nodes: []onnx.Node{onnx.Op("Sigmoid", "x", "sigmoid"),
			onnx.Op("Log", "sigmoid", "y")}, want: []string{"sigmoid(x)", "log(sigmoid)"}},
	})
}

// PyTorch's own norm by the root mean square adds eps as a number, a program's as a tensor.
func TestFusedRMSNorm(t *testing.T) {
	for name, want := range map[string][]string{
		"aten.add.Scalar": {"rms_norm(x)"},
		"aten.add.Tensor": {"pow(x, number)", "mean(pow)", "add(mean, number)", "rsqrt(add)", "mul(x, r)"},
	} {
		nodes := []onnx.Node{onnx.Op("Pow", "x two", "pow"), onnx.Op("ReduceMean", "pow axis", "mean"),
			onnx.Op("Add", "mean eps", "add"), onnx.Op("Sqrt", "add", "s"), onnx.Op("Reciprocal", "s", "r"),
			onnx.Op("Mul", "x r", "y")}
		nodes[2].Meta = append(nodes[2].Meta, onnxload.Entry{Key: "namespace", Value: ": m.M/add: " + name})
		runPatterns(t, []patternCase{{name: name, inits: []onnx.Tensor{onnx.Int64s("axis", -1),
			recovertest.F32s("two", 2), recovertest.F32s("eps", 1e-6)}, nodes: nodes, want: want}})
	}
}
