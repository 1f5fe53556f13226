package recover_test

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/lifetime"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

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

// parts returns a node without lines that takes a value apart.
func parts(in, out string) onnx.Node {
	return onnx.Op("Split", in, out, onnx.A("axis", 2), onnx.A("num_outputs", 2)).Named(":Split")
}

// Each name has its value until it is bound again, or to the end.
func TestNamesOfLines(t *testing.T) {
	const weigh = "1 x, attn = attention(x, self.v(x))"
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
		{"the sum of a list", []onnx.Node{line("Exp", "in", "a", "1 x = sum([f(x), g(x), h(x)])"),
			line("Sin", "in", "b", "1 x = sum([f(x), g(x), h(x)])"), line("Cos", "in", "c", "1 x = sum([f(x), g(x), h(x)])"),
			line("Add", "a b", "d", "1 x = sum([f(x), g(x), h(x)])"), line("Add", "d c", "e", "1 x = sum([f(x), g(x), h(x)])"),
			line("Neg", "e", "y", "2 return self.d(x)", "d")},
			"d after add(d, c)|c after add(d, c)|b after add(d, c)|a after add(d, c)|e after neg(e)"},
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
		{"several statements", []onnx.Node{line("Exp", "in", "a", "1 x = self.a(x); s = x", "a"),
			line("Sin", "a", "b", "2 x = self.b(x)", "b"), line("Cos", "b", "c", "3 x = self.c(x)", "c"),
			line("Neg", "c", "y", "4 return self.d(x)", "d")},
			"b after cos(b)|c after neg(c)|a after neg(c)"},
		{"a statement of several lines", []onnx.Node{line("Exp", "in", "a", "2 self.a(x),", "a"),
			line("Sin", "in", "b", "3 self.b(x)], 1)", "b"), line("Concat", "a b", "c", "1 x = torch.cat(["),
			line("Cos", "c", "d", "4 x = self.c(x)", "c"), line("Neg", "d", "y", "5 return self.d(x)", "d")},
			"b after cat(a, b)|a after cat(a, b)|c after cos(c)|d after neg(d)"},
		{"a tuple", []onnx.Node{line("Exp", "in", "a", "1 a, b = self.a(x), self.b(x)", "a"),
			line("Sin", "in", "b", "1 a, b = self.a(x), self.b(x)", "b"), line("Cos", "b", "c", "2 b = self.c(b)", "c"),
			line("Add", "a c", "d", "3 z = a + b"), line("Neg", "d", "y", "4 return self.d(z)", "d")},
			"b after cos(b)|a after neg(d)|c after neg(d)|d after neg(d)"},
		// skips.append(x) computes nothing; what it put into the list is held as long as the list
		{"parts of a list", []onnx.Node{
			line("Exp", "in", "a", "1 x = self.d(x)", "a"), line("Sin", "a", "b", "1 x = self.d(x)", "b"),
			line("Cos", "b", "c", "3 x = self.e(x)", "c"), line("Concat", "c b", "d", "4 x = torch.cat([x, skips[-1]], 1)"),
			line("Concat", "d a", "e", "5 x = torch.cat([x, skips[-2]], 1)"), line("Neg", "e", "y", "6 return self.f(x)", "f")},
			"c after cat(c, b)|d after cat(d, a)|e after neg(e)|b after neg(e)|a after neg(e)"},
		// outputs = [] and outputs.append(h) compute nothing: the second cat reads another list than the first
		{"a list that is begun anew", []onnx.Node{
			line("Exp", "in", "a", "2 h = self.a(h)", "a"), line("Exp", "a", "b", "2 h = self.a(h)", "b"),
			line("Concat", "a b", "c", "4 x = torch.cat(outputs, 1)"),
			line("Sin", "c", "d", "2 h = self.a(h)", "c"), line("Sin", "d", "e", "2 h = self.a(h)", "d"),
			line("Concat", "d e", "f", "4 x = torch.cat(outputs, 1)"), line("Neg", "f", "y", "5 return self.d(x)", "e")},
			"b after cat(a, b)|a after cat(a, b)|c after cat(d, e)|e after neg(f)|d after neg(f)|f after neg(f)"},
		{"the same, of lines that append", []onnx.Node{
			line("Exp", "in", "a", "2 hs.append(self.a(x))", "a"), line("Exp", "in", "b", "2 hs.append(self.a(x))", "b"),
			line("Concat", "a b", "c", "4 x = torch.cat(hs, 1)"),
			line("Sin", "c", "d", "2 hs.append(self.a(x))", "c"), line("Cos", "c", "e", "2 hs.append(self.a(x))", "d"),
			line("Concat", "d e", "f", "4 x = torch.cat(hs, 1)"), line("Neg", "f", "y", "5 return self.d(x)", "e")},
			"b after cat(a, b)|a after cat(a, b)|c after cat(d, e)|f after neg(f)|e after neg(f)|d after neg(f)"},
		{"one that was longer before", []onnx.Node{
			line("Exp", "in", "a", "2 hs.append(self.a(x))", "a"), line("Exp", "in", "b", "2 hs.append(self.a(x))", "b"),
			line("Exp", "in", "c", "2 hs.append(self.a(x))", "c"), line("Concat", "a b c", "d", "4 x = torch.cat(hs, 1)"),
			line("Sin", "d", "e", "2 hs.append(self.a(x))", "d"), line("Cos", "d", "f", "2 hs.append(self.a(x))", "e"),
			line("Concat", "e f", "g", "4 x = torch.cat(hs, 1)"),
			line("Sin", "g", "h", "2 hs.append(self.a(x))", "f"), line("Cos", "g", "i", "2 hs.append(self.a(x))", "g"),
			line("Concat", "h i", "j", "4 x = torch.cat(hs, 1)"), line("Neg", "j", "y", "5 return self.d(x)", "h")},
			"c after cat(a, b, c)|b after cat(a, b, c)|a after cat(a, b, c)|f after cat(e, f)|e after cat(e, f)|" +
				"d after cat(e, f)|g after cat(h, i)|j after neg(j)|i after neg(j)|h after neg(j)"},
		{"weights that a function returns", []onnx.Node{line("Exp", "in", "v", weigh, "v"), line("Mul", "in in", "s", weigh),
			line("Softmax", "s", "w", weigh), line("MatMul", "w v", "o", weigh), line("Cos", "o", "c", "2 x = self.c(x)", "c"),
			line("Neg", "c", "y", "3 return self.d(x)", "d")},
			"s after softmax(s)|v after matmul(w, v)|o after cos(o)|c after neg(c)|w after neg(c)"},
		{"weights that a module returns", []onnx.Node{within("Softmax", "in", "w", "5 attn = softmax(q)"),
			within("MatMul", "w in", "o", "6 out = torch.matmul(attn, v)"), line("Cos", "o", "c", "2 x = self.c(x)", "c"),
			line("Neg", "c", "y", "3 return self.d(x)", "d")},
			"o after cos(o)|w after neg(c)|c after neg(c)"},
		// b, c = torch.split(z, 4, 2), of which exporters make a node without lines, binds b and c anew in each turn
		{"what a line without nodes takes apart", []onnx.Node{line("Exp", "in", "a", "1 z = torch.exp(x)"),
			parts("a", "b c"), line("Sin", "b", "d", "3 x = torch.sin(b)"), line("Mul", "d c", "e", "4 x = x * c"),
			line("Exp", "e", "f", "1 z = torch.exp(x)"), parts("f", "g h"), line("Sin", "g", "i", "3 x = torch.sin(b)"),
			line("Mul", "i h", "j", "4 x = x * c"), line("Neg", "j", "y", "5 return self.d(x)", "d")},
			"d after mul(d, c)|a after exp(e)|c after split(f)|b after split(f)|e after sin(g)|i after mul(i, h)|" +
				"j after neg(j)|f after neg(j)|g after neg(j)|h after neg(j)"},
		{"what the line before takes apart", []onnx.Node{
			line("Exp", "in", "a", "1 b, c = self.a(x).chunk(2, dim=2)", "a"),
			parts("a", "b c"), line("Mul", "c b", "e", "4 x = c * b"), line("Neg", "e", "y", "5 return self.d(x)", "d")},
			"a after split(a)|e after neg(e)|b after neg(e)|c after neg(e)"},
		{"what the line behind takes apart", []onnx.Node{line("Exp", "in", "a", "1 x = self.a(x)", "a"),
			parts("a", "b c"), line("Mul", "c b", "e", "4 x = f(*x.chunk(2, dim=2))"),
			line("Neg", "e", "y", "5 return self.d(x)", "d")},
			"c after mul(c, b)|b after mul(c, b)|a after mul(c, b)|e after neg(e)"},
		{"what a module returns and never reads", []onnx.Node{within("Softmax", "in", "w", "5 out, rest = self.f(x)"),
			within("MatMul", "w in", "o", "5 out, rest = self.f(x)"), within("Exp", "o", "e", "6 out = out.exp()"),
			line("Cos", "e", "c", "2 x = self.c(x)", "c"), line("Neg", "c", "y", "3 return self.d(x)", "d")},
			"o after exp(o)|e after cos(e)|w after neg(c)|c after neg(c)"},
		{"what a line below reads", []onnx.Node{within("Sin", "in", "v", "4 v = self.v(x)"),
			within("Mul", "v v", "o", "5 out, rest = attention("), within("Exp", "o", "e", "8 out = out.exp()"),
			line("Cos", "e", "c", "2 x = self.c(x)", "c"), line("Neg", "c", "y", "3 return self.d(x)", "d")},
			"o after exp(o)|v after exp(o)|e after cos(e)|c after neg(c)"},
		// x, kept = self.a(x), where kept was made first, as line 2 says
		{"what a module makes first and returns last", []onnx.Node{within("Exp", "in", "k", "5 y = x.exp()"),
			within("Sin", "k", "o", "6 x = y.sin()"), line("Cos", "k", "c", "2 z = self.c(kept)", "c"),
			line("Tan", "o", "d", "3 x = self.d(x)", "d"), line("Add", "d c", "y", "4 return x + z")},
			"o after tan(o)|d after add(d, c)|k after add(d, c)|c after add(d, c)"},
		// skip = skips.pop() begins a turn of the loop: the skip before it lives until then
		{"what a line without nodes takes off a list", []onnx.Node{
			line("Exp", "in", "a", "1 x = self.a(x)", "a"), line("Exp", "a", "b", "2 x = self.b(x)", "b"),
			line("Sin", "b", "c", "3 x = self.c(x)", "c"), line("Concat", "c b", "d", "5 x = torch.cat([x, skip], 1)"),
			line("Cos", "d", "e", "6 x = self.d(x)", "d"), line("Concat", "e a", "f", "5 x = torch.cat([x, skip], 1)"),
			line("Cos", "f", "g", "6 x = self.d(x)", "e"), line("Neg", "g", "y", "7 return self.f(x)", "f")},
			"c after cat(c, b)|d after cos(d)|b after cos(d)|e after cat(e, a)|f after cos(f)|g after neg(g)|a after neg(g)"},
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
		"2 x += y":               "add(n, in) in place",
		"2 x = x + y":            "add(n, in)",
		"2 return F.f(x + y)":    "add(n, in)",
		"2 x -= y":               "add(n, in) in place", // no line of an addition: the style of residual blocks
		"2 x.add_(y)":            "add(n, in) in place",
		"2 x = self.add(x, y)":   "add(n, in) in place",
		"2 return torch.add(x,":  "add(n, in) in place",
		"2 x = x + y; z = x * x": "add(n, in) in place",
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

// An attribute of a module outlives its forward, be it what a line computes or what a function returns beside what is
// read of it: the weights, as most code of attention does.
func TestAttributes(t *testing.T) {
	const call = "1 x, self.attn = attention(x, self.v(x))"
	const drops = "1 x, self.attn = attention(x, self.v(x), dropout=self.drop)"
	for _, c := range []struct {
		name  string
		nodes []onnx.Node
		want  string
	}{
		{"computed", []onnx.Node{line("Exp", "in", "a", "1 self.kept = self.a(x)", "a"),
			line("Sin", "a", "b", "2 x = self.b(self.kept)", "b"), line("Neg", "b", "y", "3 return self.c(x)", "c")},
			"a"},
		{"bound twice", []onnx.Node{line("Exp", "in", "a", "1 self.kept = self.a(x)", "a"),
			line("Sin", "a", "b", "2 self.kept = self.b(self.kept)", "b"),
			line("Neg", "b", "y", "3 return self.c(self.kept)", "c")},
			"a b"},
		{"returned", []onnx.Node{line("Exp", "in", "v", call, "v"), line("Mul", "in in", "s", call),
			line("Softmax", "s", "w", call), line("MatMul", "w v", "o", call), line("Neg", "o", "y", "2 return self.c(x)", "c")},
			"w"},
		{"of a function that calls a module", []onnx.Node{line("Exp", "in", "v", drops, "v"),
			line("Mul", "in in", "s", drops), line("Softmax", "s", "w", drops),
			line("Dropout", "w", "d", drops, "drop"), line("MatMul", "d v", "o", drops),
			line("Neg", "o", "y", "2 return self.c(x)", "c")},
			"d"},
		{"of a function, one of whose values others read", []onnx.Node{line("Exp", "in", "v", call, "v"),
			line("Mul", "in in", "s", call), line("Softmax", "s", "w", call), line("MatMul", "w v", "o", call),
			line("Add", "s o", "z", "2 x = x + mask"), line("Neg", "z", "y", "3 return self.c(x)", "c")},
			"w"},
		{"of a method without lines", []onnx.Node{line("Exp", "in", "a", "1 self.encode(x)", "m"),
			line("Sin", "a", "b", "2 x = self.b(self.f)", "b"), line("Neg", "b", "y", "3 return self.c(x)", "c")}, "a"},
		{"of one that is given a list", []onnx.Node{line("Exp", "in", "a", "1 self.encode(x, xs)", "m"),
			line("Sin", "a", "b", "2 x = self.b(xs[0])", "b"), line("Neg", "b", "y", "3 return self.c(x)", "c")}, ""},
		{"of one that is an argument", []onnx.Node{line("Exp", "in", "a", "2 self.encode(x)", "m"),
			line("Sin", "a", "b", "1 x = self.b(", "b"), line("Neg", "b", "y", "4 return self.c(x)", "c")}, ""},
		{"of another object", []onnx.Node{line("Exp", "in", "a", "1 out.kept = self.a(x)", "a"),
			line("Neg", "a", "y", "3 return self.c(out.kept)", "c")}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustRecover(t, linesGraph(c.nodes...))
			ends, _ := lifetime.Of(p)
			var got []string
			for _, a := range ends.Attributes {
				got = append(got, p.Values[a.Value].Name)
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("kept are %q, want %q", got, c.want)
			}
		})
	}
}
