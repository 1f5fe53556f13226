package recover_test

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What a line checkpoints is each module that a loop calls there, or all that a function calls in one turn; what
// torch.export made a graph of its own is under no_grad.
func TestRegions(t *testing.T) {
	const check = "m.py:1 x = checkpoint(f, x)"
	const graph = "<eval_with_key>.7:"
	node := func(op, in, out, module string, frames ...string) onnx.Node {
		return from(onnx.Op(op, in, out).Named(module+":"+op), frames...)
	}
	for _, c := range []struct {
		name  string
		nodes []onnx.Node

		checkpoints, noGrad []program.Span
	}{
		{"a loop over modules", []onnx.Node{node("Exp", "in", "a", "b.0", check, "n.py:5 x = exp(x)"),
			node("Sin", "a", "b", "b.0", check, "n.py:6 x = sin(x)"), node("Exp", "b", "c", "b.1", check, "n.py:5 x = exp(x)"),
			node("Sin", "c", "d", "b.1", check, "n.py:6 x = sin(x)"), line("Neg", "d", "y", "3 return self.c(x)", "c")},
			[]program.Span{{First: 0, Last: 1}, {First: 2, Last: 3}}, nil},
		{"a function of several modules", []onnx.Node{line("Cos", "in", "z", "1 x = checkpoint(f, x)"),
			node("Exp", "z", "a", "norm", check, "n.py:5 x = exp(x)"), node("Sin", "a", "b", "conv", check, "n.py:6 x = sin(x)"),
			line("Neg", "b", "y", "3 return self.c(x)", "c")},
			[]program.Span{{First: 0, Last: 2}}, nil},
		{"a line that only says so", []onnx.Node{line("Cos", "in", "z", "1 x = checkpoint(f, x)"),
			line("Neg", "z", "y", "3 return self.c(x)", "c")}, nil, nil},
		{"no_grad", []onnx.Node{node("Exp", "in", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(x)"),
			node("Sin", "a", "b", "s", graph+"6 sin = torch.ops.aten.sin.default(exp)"),
			line("Neg", "b", "y", "3 return self.d(x)", "d")}, nil, []program.Span{{First: 0, Last: 1}}},
		{"autocast, before which parameters train", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Exp", "z", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(linear)"),
			onnx.Op("MatMul", "a second.weight", "y").Named("MatMul")}, nil, nil},
		{"autocast whose arguments were folded", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Mul", "z div", "a", "s", graph+"15 mul_1 = torch.ops.aten.mul.Tensor(tanh, div)"),
			onnx.Op("MatMul", "a second.weight", "y").Named("MatMul")}, nil, nil},
		{"no_grad beside what trains", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Exp", "z", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(linear)"),
			onnx.Op("Mul", "a z", "y").Named("Mul")}, nil, []program.Span{{First: 1, Last: 1}}},
	} {
		g := linesGraph(c.nodes...)
		g.Inits = []onnx.Tensor{onnx.Bare("first.weight", onnxload.Float32, 8, 8),
			onnx.Bare("second.weight", onnxload.Float32, 8, 8), onnx.Bare("div", onnxload.Float32, 8)}
		checkpoints, noGrad := mustRecover(t, g).Regions()
		if !slices.Equal(checkpoints, c.checkpoints) || !slices.Equal(noGrad, c.noGrad) {
			t.Errorf("%s: %v checkpointed, %v without gradients, want %v and %v", c.name, checkpoints, noGrad, c.checkpoints,
				c.noGrad)
		}
	}
}

// The lines of graphs that torch.export made of parts of a program say nothing of how well its own are known.
func TestRetraced(t *testing.T) {
	const graph = "<eval_with_key>.7:"
	node := func(op, in, out, frame string) onnx.Node { return from(onnx.Op(op, in, out).Named("s:"+op), frame) }
	body := []onnx.Node{node("Exp", "in", "a", graph+"5 exp = aten.exp(x)"),
		node("Sin", "a", "b", graph+"6 sin = aten.sin(exp)"), node("Cos", "b", "c", graph+"7 cos = aten.cos(sin)")}
	own := line("Neg", "c", "y", "3 return self.d(x)", "d")
	if p := mustRecover(t, linesGraph(append(body, own)...)); !p.Traced() {
		t.Error("three calls under no_grad hide the line of the fourth")
	}
	if p := mustRecover(t, linesGraph(body...)); p.Traced() {
		t.Error("a program of which no line is known is taken for one whose lines are")
	}
}
