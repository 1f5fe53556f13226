package recover_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// scopesOf returns the modules that calls are in, by call, each with those around it.
func scopesOf(p *program.Program) string {
	var lines []string
	for _, c := range p.Calls {
		var path []string
		for s := c.Scope; s > 0; s = p.Scopes[s].Parent {
			path = append([]string{p.Scopes[s].Name}, path...)
		}
		lines = append(lines, strings.Join(path, " > "))
	}
	return strings.Join(lines, "\n")
}

// A class's parent has a frame and is the same module.
func TestFramesAndPlaces(t *testing.T) {
	const outer = "m.py:1 x = self.e(x)"
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("in", 2, 3)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{
			from(onnx.Op("Cos", "in", "c").Named("e/e.n:Cos"), outer, "e.py:7 x = self.n(x)", "n.py:8 return super().forward(x)",
				"norm.py:9 return x.cos()"),
			from(onnx.Op("Tan", "c", "d").Named("e:Tan"), outer, "e.py:10 x = x.tan()"),
			from(onnx.Op("Neg", "d", "y").Named(":Neg"), "m.py:11 return -x"),
		},
	})
	if got, want := scopesOf(p), "e > e.n\ne\n"; got != want {
		t.Errorf("modules\n%s\nwanted\n%s", got, want)
	}
	wantEnds(t, p, "c after tan(c)", "d after neg(d)")
}

// The convolution that lost its batch norm to folding is of the module of its weight, on the line before the norm's,
// whose name it binds; where one line calls both, on that.
func TestFoldedLines(t *testing.T) {
	graph := func(line string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("in", 1, 3, 8, 8)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Bare("m.conv.weight", onnxload.Float32, 3, 3, 1, 1)},
			Nodes: []onnx.Node{
				from(onnx.Op("Exp", "in", "a").Named("m:Exp"), "m.py:1 x = self.m(x)", "m.py:2 x = x.exp()"),
				from(onnx.Op("Conv", "a m.conv.weight", "getitem").Named("m/m.bn:Conv"), "m.py:1 x = self.m(x)", "m.py:3 "+line,
					"bn.py:4 return F.batch_norm("),
				from(onnx.Op("Sin", "getitem", "b").Named("m:Sin"), "m.py:1 x = self.m(x)", "m.py:5 z = y.sin()"),
				from(onnx.Op("Neg", "b", "y").Named("m:Neg"), "m.py:1 x = self.m(x)", "m.py:6 return -z"),
			},
		}
	}
	for line, want := range map[string]string{
		// x = self.conv(x), y = self.bn(x)
		"y = self.bn(x)":            "a after conv(a, m.conv.weight, -)|getitem after neg(b)|b after neg(b)",
		"y = self.bn(self.conv(x))": "a after neg(b)|getitem after neg(b)|b after neg(b)",
		"y = self.bn(t)":            "a after neg(b)|getitem after neg(b)|b after neg(b)", // t = self.conv(x)
	} {
		p := mustRecover(t, graph(line))
		if got := scopesOf(p); got != "m\nm > m.conv\nm > m.bn\nm\nm" {
			t.Errorf("%s: modules\n%s", line, got)
		}
		wantEnds(t, p, strings.Split(want, "|")...)
	}
}

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
