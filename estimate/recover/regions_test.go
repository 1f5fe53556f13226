package recover_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/lifetime"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What a line checkpoints is each module that a loop calls there, or all that a function calls in one turn; what it
// applies is the forward of a function of autograd; what torch.export made a graph of its own is under no_grad.
func TestRegions(t *testing.T) {
	const check, apply = "m.py:1 x = checkpoint(f, x)", "m.py:2 x = Swish.apply(x)"
	const graph = "<eval_with_key>.7:"
	node := func(op, in, out, module string, frames ...string) onnx.Node {
		return from(onnx.Op(op, in, out).Named(module+":"+op), frames...)
	}
	modules := func(row string, n int) (nodes []onnx.Node) {
		at := "in"
		for i := range n {
			a, b, module := fmt.Sprint("a", i), fmt.Sprint("b", i), fmt.Sprint("m/m.l.", i)
			for _, op := range [][3]string{{"Exp", at, a}, {"Sin", a, b}} {
				nodes = append(nodes, node(op[0], op[1], op[2], module, "r.py:9 return self.m(x)", "m.py:"+row,
					"/lib/torch/utils/checkpoint.py:590 input = functions[j](input)", "n.py:5 x = "+op[0]))
			}
			at = b
		}
		return nodes
	}
	for _, c := range []struct {
		name  string
		nodes []onnx.Node

		checkpoints, functions, noGrad []program.Span
	}{
		{"a loop over modules", []onnx.Node{node("Exp", "in", "a", "b.0", check, "n.py:5 x = exp(x)"),
			node("Sin", "a", "b", "b.0", check, "n.py:6 x = sin(x)"), node("Exp", "b", "c", "b.1", check, "n.py:5 x = exp(x)"),
			node("Sin", "c", "d", "b.1", check, "n.py:6 x = sin(x)"), line("Neg", "d", "y", "3 return self.c(x)", "c")},
			[]program.Span{{First: 0, Last: 1}, {First: 2, Last: 3}}, nil, nil},
		{"a function of several modules", []onnx.Node{line("Cos", "in", "z", "1 x = checkpoint(f, x)"),
			node("Exp", "z", "a", "norm", check, "n.py:5 x = exp(x)"), node("Sin", "a", "b", "conv", check, "n.py:6 x = sin(x)"),
			line("Neg", "b", "y", "3 return self.c(x)", "c")},
			[]program.Span{{First: 0, Last: 2}}, nil, nil},
		{"a line that only says so", []onnx.Node{line("Cos", "in", "z", "1 x = checkpoint(f, x)"),
			line("Neg", "z", "y", "3 return self.c(x)", "c")}, nil, nil, nil},
		{"modules in segments", append(modules("1 x = checkpoint_sequential(self.l, 2, x)", 5),
			line("Neg", "b4", "y", "3 return self.c(x)", "c")), []program.Span{{First: 0, Last: 3}}, nil, nil},
		{"one segment", append(modules("1 x = checkpoint_sequential(self.l, 1, x)", 5),
			line("Neg", "b4", "y", "3 return self.c(x)", "c")), nil, nil, nil},
		{"segments that the line does not count", append(modules("1 x = checkpoint_sequential(self.l, self.n, x)", 5),
			line("Neg", "b4", "y", "3 return self.c(x)", "c")), nil, nil, nil},
		{"each module a segment", append(modules("1 x = checkpoint_sequential(self.l, len(self.l), x)", 3),
			line("Neg", "b2", "y", "3 return self.c(x)", "c")), []program.Span{{First: 0, Last: 1}, {First: 2, Last: 3}}, nil, nil},
		{"functions of autograd", []onnx.Node{node("Tanh", "in", "a", "s", apply, "n.py:5 y = i * tanh(i)"),
			node("Mul", "in a", "b", "s", apply, "n.py:5 y = i * tanh(i)"), line("Cos", "b", "c", "2 x = self.c(x)", "c"),
			node("Exp", "c", "d", "s", apply, "n.py:5 y = exp(i)"), line("Neg", "d", "y", "3 return self.d(x)", "d")},
			nil, []program.Span{{First: 0, Last: 1}, {First: 3, Last: 3}}, nil},
		{"no_grad", []onnx.Node{node("Exp", "in", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(x)"),
			node("Sin", "a", "b", "s", graph+"6 sin = torch.ops.aten.sin.default(exp)"),
			line("Neg", "b", "y", "3 return self.d(x)", "d")}, nil, nil, []program.Span{{First: 0, Last: 1}}},
		{"no_grad in a function's forward", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Exp", "z", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(x)"),
			node("Sin", "a", "b", "s", "<eval_with_key>.8:5 sin = torch.ops.aten.sin.default(exp)"),
			node("Neg", "b", "y", "s", "<eval_with_key>.8:6 neg = torch.ops.aten.neg.default(sin)")},
			nil, []program.Span{{First: 1, Last: 1}}, nil},
		{"no_grad in one function's forward after another's", []onnx.Node{
			onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Exp", "z", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(x)"),
			node("Sin", "a", "b", "s", "<eval_with_key>.9:5 sin = torch.ops.aten.sin.default(exp)"),
			node("Neg", "b", "y", "s", "<eval_with_key>.10:6 neg = torch.ops.aten.neg.default(sin)")},
			nil, []program.Span{{First: 1, Last: 1}, {First: 2, Last: 2}}, nil},
		{"autocast, before which parameters train", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Exp", "z", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(linear)"),
			onnx.Op("MatMul", "a second.weight", "y").Named("MatMul")}, nil, nil, nil},
		{"autocast whose arguments were folded", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Mul", "z div", "a", "s", graph+"15 mul_1 = torch.ops.aten.mul.Tensor(tanh, div)"),
			onnx.Op("MatMul", "a second.weight", "y").Named("MatMul")}, nil, nil, nil},
		{"no_grad beside what trains", []onnx.Node{onnx.Op("MatMul", "in first.weight", "z").Named("MatMul"),
			node("Exp", "z", "a", "s", graph+"5 exp = torch.ops.aten.exp.default(linear)"),
			onnx.Op("Mul", "a z", "y").Named("Mul")}, nil, nil, []program.Span{{First: 1, Last: 1}}},
	} {
		g := linesGraph(c.nodes...)
		g.Inits = []onnx.Tensor{onnx.Bare("first.weight", onnxload.Float32, 8, 8),
			onnx.Bare("second.weight", onnxload.Float32, 8, 8), onnx.Bare("div", onnxload.Float32, 8)}
		checkpoints, functions, noGrad := lifetime.Regions(mustRecover(t, g))
		if !slices.Equal(checkpoints, c.checkpoints) || !slices.Equal(functions, c.functions) ||
			!slices.Equal(noGrad, c.noGrad) {
			t.Errorf("%s: %v checkpointed, %v of functions, %v without gradients, want %v, %v and %v", c.name, checkpoints,
				functions, noGrad, c.checkpoints, c.functions, c.noGrad)
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
