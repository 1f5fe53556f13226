package recover_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// endsOf says after which call each activation goes, in the order of the text.
func endsOf(p *program.Program) (lines []string) {
	ends := p.Liveness()
	calls := strings.Split(recovertest.CallsOf(p), "\n")
	for i := range p.Calls {
		for _, v := range ends.After[i] {
			if name := p.Values[v].Name; name != "" {
				lines = append(lines, name+" after "+calls[i])
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func wantEnds(t *testing.T, p *program.Program, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := endsOf(p); !slices.Equal(got, want) {
		t.Errorf("activations go\n%s\nwanted\n%s\nthe calls are\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"),
			recovertest.CallsOf(p))
	}
}

// A Sequential's caller holds what it passes until all of its members ran; a loop over a ModuleList
// assigns its variable anew after each.
func TestListsOfModulesHoldNothing(t *testing.T) {
	graph := func(first, second string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("x", 2, 3)}, Out: []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{
				onnx.Op("Relu", "x", "a").Named("s/s.stem:Relu"), onnx.Op("Exp", "a", "b").Named(first + ":Exp"),
				onnx.Op("Sqrt", "b", "c").Named(second + ":Sqrt"), onnx.Op("Neg", "c", "y").Named("s/s.head:Neg"),
			},
		}
	}
	wantEnds(t, mustRecover(t, graph("s/s.l/s.l.0", "s/s.l/s.l.1")), "b after sqrt(b)", "a after sqrt(b)",
		"c after neg(c)")
	wantEnds(t, mustRecover(t, graph("s/s.l.0", "s/s.l.1")), "a after exp(a)", "b after sqrt(b)", "c after neg(c)")
}

// q, k and v are names, and so is attn: x = self.proj((attn @ v).transpose(1, 2)) assigns none of them. The argument
// of the projection that they come out of is assigned by what attention makes.
func TestNamesOfAttention(t *testing.T) {
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("in", 2, 4, 6)}, Out: []onnx.Value{{Name: "y"}},
		Inits: []onnx.Tensor{onnx.Bare("a.qkv.weight", onnxload.Float32, 6, 18),
			onnx.Bare("a.proj.weight", onnxload.Float32, 6, 6)},
		Nodes: []onnx.Node{
			onnx.Op("Exp", "in", "x").Named("a:Exp"), onnx.Op("MatMul", "x a.qkv.weight", "qkv").Named("a:MatMul"),
			onnx.Op("Split", "qkv", "q k v", onnx.A("axis", 2), onnx.A("num_outputs", 3)).Named("a:Split"),
			onnx.Op("Transpose", "k", "kt", onnx.A("perm", []int64{0, 2, 1})).Named("a:Transpose"),
			onnx.Op("MatMul", "q kt", "s").Named("a:MatMul"), onnx.Op("Softmax", "s",
				"attn").Named("a:Softmax"), onnx.Op("MatMul", "attn v", "o").Named("a:MatMul"),
			onnx.Op("MatMul", "o a.proj.weight", "z").Named("a:MatMul"), onnx.Op("Neg", "z", "y").Named("b:Neg"),
		},
	})
	wantEnds(t, p, "qkv after split(qkv)", "k after permute(k)", "s after softmax(s)", "x after matmul(attn, v)",
		"o after linear(o, a.proj.weight, -)",
		"q after linear(o, a.proj.weight, -)", "v after linear(o, a.proj.weight, -)", "kt after linear(o, a.proj.weight, -)",
		"attn after linear(o, a.proj.weight, -)", "z after neg(z)")
}

// x = self.conv2(self.relu2(self.norm2(x))) is one expression; where convolutions come first, each module has its line.
func TestNormsBeforeConvolutions(t *testing.T) {
	graph := func(names ...string) onnx.Graph {
		g := onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 4, 8, 8)}, Out: []onnx.Value{{Name: names[len(names)-1]}}}
		x := "in"
		for _, name := range names {
			n := onnx.Op("Exp", x, name)
			if strings.HasPrefix(name, "conv") {
				w := "a." + name + ".weight"
				g.Inits = append(g.Inits, onnx.Bare(w, onnxload.Float32, 4, 4, 1, 1))
				n = onnx.Op("Conv", x+" "+w, name)
			}
			g.Nodes = append(g.Nodes, n.Named("a."+name+":"+n.Op))
			x = name
		}
		return g
	}
	conv := func(name, x string) string { return "conv(" + x + ", a." + name + ".weight, -)" }
	wantEnds(t, mustRecover(t, graph("act1", "conv1", "act2", "conv2")),
		"act1 after "+conv("conv1", "act1"), "act2 after "+conv("conv2", "act2"), "conv1 after "+conv("conv2", "act2"))
	wantEnds(t, mustRecover(t, graph("act0", "conv1", "act1", "conv2")),
		"act0 after "+conv("conv1", "act0"), "conv1 after exp(conv1)", "act1 after "+conv("conv2", "act1"))
}

// Where a file says no more than the outer module of some nodes, their own functions are unknown: nothing lives to the
// end of one, though it is read twice.
func TestCutPlacesHoldNothing(t *testing.T) {
	for _, cut := range []bool{false, true} {
		p := mustRecover(t, onnx.Graph{
			In: []onnx.Value{onnx.Float("x", 2, 3)}, Out: []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{
				onnx.Op("Exp", "x", "a").Named("s/s.block:Exp"), onnx.Op("Sqrt", "a", "b").Named("s/s.block:Sqrt"),
				onnx.Op("Concat", "a b", "c", onnx.A("axis", 1)).Named("s/s.block:Concat"), onnx.Op("Neg", "c",
					"y").Named("s/s.block:Neg"),
			},
		})
		for i := range p.Scopes {
			p.Scopes[i].Cut = cut
		}
		if cut {
			wantEnds(t, p, "b after cat(a, b)", "a after cat(a, b)", "c after neg(c)")
		} else {
			wantEnds(t, p, "b after cat(a, b)", "c after neg(c)", "a after neg(c)")
		}
	}
}

// line is a node of a test's graph that the forward of the model itself makes at a line, or a module that it calls
// there.
func line(op, in, out, text string, module ...string) onnx.Node {
	var attrs []onnx.Attr
	if op == "Concat" {
		attrs = append(attrs, onnx.A("axis", 1))
	}
	n := onnx.Op(op, in, out, attrs...).Named(strings.Join(module, "") + ":" + op)
	frames := []string{"m.py:" + text}
	if len(module) > 0 {
		frames = append(frames, "lib.py:1 return F.f(input)")
	}
	return from(n, frames...)
}

func linesGraph(nodes ...onnx.Node) onnx.Graph {
	return onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 3, 8, 8)},
		Out: []onnx.Value{{Name: nodes[len(nodes)-1].Out[0]}}, Nodes: nodes}
}

// within returns a node that a line of module a made, whose results two names get.
func within(op, in, out, text string) onnx.Node {
	return from(onnx.Op(op, in, out).Named("a:"+op), "m.py:1 x, kept = self.a(x)", "n.py:"+text)
}

// Each name has its value until it is bound again, or to the end.
func TestNamesOfLines(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  string
	}{
		{"rebound", []onnx.Node{line("Exp", "in", "a", "1 x = self.a(x)", "a"),
			line("Sin", "a", "b", "2 x = self.b(x)", "b"), line("Neg", "b", "y", "3 return self.c(x)", "c")},
			"a after sin(a)|b after neg(b)"},
		{"another name", []onnx.Node{line("Exp", "in", "a", "1 x = self.a(x)", "a"),
			line("Sin", "a", "b", "2 y = self.b(x)", "b"), line("Cos", "b", "c", "3 y = self.c(y)", "c"),
			line("Neg", "c", "y", "4 return self.d(y)", "d")},
			"b after cos(b)|a after neg(c)|c after neg(c)"},
		{"a temporary", []onnx.Node{line("Exp", "in", "a", "1 x = self.b(self.a(x))", "a"),
			line("Sin", "a", "b", "1 x = self.b(self.a(x))", "b"), line("Cos", "b", "c", "2 z = torch.cos(x)"),
			line("Neg", "c", "y", "3 return -z")},
			"a after sin(a)|b after neg(c)|c after neg(c)"},
		// shortcut = x stands between the lines, and holds what x had
		{"a line that computes nothing", []onnx.Node{line("Exp", "in", "a", "1 x = self.a(x)", "a"),
			line("Sin", "a", "b", "3 x = self.b(x)", "b"), line("Add", "a b", "c", "4 x = shortcut + x"),
			line("Cos", "c", "d", "5 x = self.c(x)", "c"), line("Neg", "d", "y", "6 return self.d(x)", "d")},
			"b after add(a, b)|c after cos(c)|d after neg(d)|a after neg(d)"},
		{"the same, bound again", []onnx.Node{
			line("Exp", "in", "a", "1 x = self.a(x)", "a"), line("Sin", "a", "b", "3 x = self.b(x)", "b"), line("Add", "a b",
				"c", "4 x = shortcut + x"),
			line("Cos", "c", "d", "6 x = self.c(x)", "c"), line("Add", "c d", "e", "7 x = shortcut + x"), line("Neg", "e", "y",
				"8 return self.d(x)", "d")},
			"b after add(a, b)|a after add(a, b)|d after add(c, d)|e after neg(e)|c after neg(e)"},
		{"a list", []onnx.Node{line("Exp", "in", "a", "1 xs.append(self.a(x))", "a"),
			line("Sin", "in", "b", "2 xs.append(self.b(x))", "b"), line("Concat", "a b", "c", "3 x = torch.cat(xs, 1)"),
			line("Cos", "c", "d", "4 x = self.c(x)", "c"), line("Neg", "d", "y", "5 return self.d(x)", "d")},
			"c after cos(c)|d after neg(d)|b after neg(d)|a after neg(d)"},
		{"a loop on one line", []onnx.Node{
			line("Exp", "in", "a", "1 for b in self.b: x = x + b(x)", "b.0"), line("Add", "in a", "b",
				"1 for b in self.b: x = x + b(x)"),
			line("Exp", "b", "c", "1 for b in self.b: x = x + b(x)", "b.1"), line("Add", "b c", "d",
				"1 for b in self.b: x = x + b(x)"), line("Neg", "d", "y", "2 return self.o(x)", "o")},
			"a after add(in, a)|c after add(b, c)|b after add(b, c)|d after neg(d)"},
		{"a statement of several lines", []onnx.Node{line("Exp", "in", "a", "2 self.a(x),", "a"),
			line("Sin", "in", "b", "3 self.b(x)], 1)", "b"), line("Concat", "a b", "c", "1 x = torch.cat(["),
			line("Cos", "c", "d", "4 x = self.c(x)", "c"), line("Neg", "d", "y", "5 return self.d(x)", "d")},
			"b after cat(a, b)|a after cat(a, b)|c after cos(c)|d after neg(d)"},
		{"a tuple", []onnx.Node{line("Exp", "in", "a", "1 a, b = self.a(x), self.b(x)", "a"),
			line("Sin", "in", "b", "1 a, b = self.a(x), self.b(x)", "b"), line("Cos", "b", "c", "2 b = self.c(b)", "c"),
			line("Add", "a c", "d", "3 z = a + b"), line("Neg", "d", "y", "4 return self.d(z)", "d")},
			"b after cos(b)|a after neg(d)|c after neg(d)|d after neg(d)"},
		{"what a line below reads", []onnx.Node{within("Sin", "in", "v", "4 v = self.v(x)"),
			within("Mul", "v v", "o", "5 out, rest = attention("), within("Exp", "o", "e", "8 out = out.exp()"),
			line("Cos", "e", "c", "2 x = self.c(x)", "c"), line("Neg", "c", "y", "3 return self.d(x)", "d")},
			"o after exp(o)|v after exp(o)|e after cos(e)|c after neg(c)"},
		// x, kept = self.a(x), where kept was made first, as line 2 says
		{"what a module makes first and returns last", []onnx.Node{within("Exp", "in", "k", "5 y = x.exp()"),
			within("Sin", "k", "o", "6 x = y.sin()"), line("Cos", "k", "c", "2 z = self.c(kept)", "c"),
			line("Tan", "o", "d", "3 x = self.d(x)", "d"), line("Add", "d c", "y", "4 return x + z")},
			"o after tan(o)|d after add(d, c)|k after add(d, c)|c after add(d, c)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			wantEnds(t, mustRecover(t, linesGraph(c.nodes...)),
				strings.Split(c.want, "|")...)
		})
	}
}

// Lines that contradict the graph, or are of a file that was changed, are worth no more than guesses; half of them are.
func TestFewLines(t *testing.T) {
	plain := func(op, in, out string) onnx.Node { return onnx.Op(op, in, out).Named(":" + op) }
	nodes := []onnx.Node{line("Exp", "in", "a", "1 kept = torch.exp(x)"), plain("Sin", "a", "b"), plain("Cos", "b", "c"),
		plain("Tan", "c", "d"), plain("Neg", "d", "y")}
	wantEnds(t, mustRecover(t, linesGraph(nodes...)), "a after sin(a)", "b after cos(b)", "c after tan(c)",
		"d after neg(d)")
}

// x += y is in place where the line says so, and z = x + y is not, whatever the style of code is.
func TestInPlaceLines(t *testing.T) {
	for text, want := range map[string]string{
		"2 x += y":              "add(n, in) in place",
		"2 x = x + y":           "add(n, in)",
		"2 return F.f(x + y)":   "add(n, in)",
		"2 x -= y":              "add(n, in) in place", // no line of an addition: the style of residual blocks
		"2 x.add_(y)":           "add(n, in) in place",
		"2 x = self.add(x, y)":  "add(n, in) in place",
		"2 return torch.add(x,": "add(n, in) in place",
	} {
		g := linesGraph(from(onnx.Op("BatchNormalization", "in n.scale n.bias n.mean n.var",
			"n").Named("n:BatchNormalization"), "m.py:1 x = self.n(x)", "lib.py:1 return F.batch_norm("),
			line("Add", "n in", "a", text), line("Relu", "a", "y", "3 return F.relu(x)"))
		for _, name := range []string{"n.scale", "n.bias", "n.mean", "n.var"} {
			g.Inits = append(g.Inits, onnx.Bare(name, onnxload.Float32, 3))
		}
		calls := recovertest.CallsOf(mustRecover(t, g))
		if !strings.Contains(calls, want+"\n") || !strings.Contains(calls, "relu(a)") ||
			strings.Contains(calls, "relu(a) in place") {
			t.Errorf("%s: %s, want %s, and a ReLU that is not in place", text, calls, want)
		}
	}
}
