package recover_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/lifetime"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// ends describes when the activations of a program go: "a after relu(x)", one a line.
func endsOf(p *program.Program) string {
	ends, _ := lifetime.Of(p)
	calls := strings.Split(recovertest.CallsOf(p), "\n")
	var lines []string
	for i := range p.Calls {
		for _, v := range ends.After(i) {
			if name := p.Values[v].Name; name != "" {
				lines = append(lines, name+" after "+calls[i])
			}
		}
	}
	return strings.Join(lines, "\n")
}

func wantEnds(t *testing.T, p *program.Program, want ...string) {
	t.Helper()
	if got := endsOf(p); got != strings.Join(want, "\n") {
		t.Errorf("activations go\n%s\nwanted\n%s\nthe calls are\n%s", got, strings.Join(want, "\n"), recovertest.CallsOf(p))
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

// The name xb goes on through two modules, xb = self.second(self.first(xb)), so it is there when xs and xb are joined.
func TestNamesOfParts(t *testing.T) {
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{
			onnx.Op("Split", "in", "xs xb", onnx.A("axis", 1), onnx.A("num_outputs", 2)).Named("a:Split"),
			onnx.Op("Neg", "xb", "b1").Named("a.first:Neg"), onnx.Op("Neg", "b1", "b2").Named("a.second:Neg"),
			onnx.Op("Concat", "xs b2", "c", onnx.A("axis", 1)).Named("a:Concat"), onnx.Op("Sqrt", "c", "y").Named("a.last:Sqrt"),
		},
	})
	wantEnds(t, p, "xb after neg(xb)", "b1 after neg(b1)", "c after sqrt(c)", "xs after sqrt(c)", "b2 after sqrt(c)")
}

// The parts that modules made are in a list, which is there after cat; two of them need not be.
func TestNamesOfLists(t *testing.T) {
	graph := func(n int) onnx.Graph {
		g := onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "y"}}}
		parts := []string{"p0", "p1", "p2"}[:n]
		for i, name := range parts {
			g.Nodes = append(g.Nodes, onnx.Op("Neg", "in", name).Named("a.b"+strconv.Itoa(i)+":Neg"))
		}
		g.Nodes = append(g.Nodes, onnx.Op("Concat", strings.Join(parts, " "), "c", onnx.A("axis", 1)).Named("a:Concat"),
			onnx.Op("Sqrt", "c", "y").Named("a.last:Sqrt"))
		return g
	}
	wantEnds(t, mustRecover(t, graph(3)), "c after sqrt(c)", "p0 after sqrt(c)", "p1 after sqrt(c)", "p2 after sqrt(c)")
	wantEnds(t, mustRecover(t, graph(2)), "p1 after cat(p0, p1)", "p0 after cat(p0, p1)", "c after sqrt(c)")
}

// What functions made may be part of an expression, unless it is joined from the last to the first:
// torch.cat(parts[::-1]).
func TestNamesOfTurnedLists(t *testing.T) {
	graph := func(order string) onnx.Graph {
		g := onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "y"}}}
		for _, name := range []string{"p0", "p1", "p2"} {
			g.Nodes = append(g.Nodes, onnx.Op("Neg", "in", name).Named("a:Neg"))
		}
		g.Nodes = append(g.Nodes, onnx.Op("Concat", order, "c", onnx.A("axis", 1)).Named("a:Concat"),
			onnx.Op("Sqrt", "c", "y").Named("a.last:Sqrt"))
		return g
	}
	wantEnds(t, mustRecover(t, graph("p2 p1 p0")), "c after sqrt(c)", "p0 after sqrt(c)", "p1 after sqrt(c)",
		"p2 after sqrt(c)")
	wantEnds(t, mustRecover(t, graph("p0 p1 p2")), "p2 after cat(p0, p1, p2)", "p1 after cat(p0, p1, p2)",
		"p0 after cat(p0, p1, p2)", "c after sqrt(c)")
}

// The next round of a loop over modules assigns the names anew.
func TestNamesInLoops(t *testing.T) {
	g := onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "h2"}}}
	h := "in"
	for i := range 2 {
		n := strconv.Itoa(i + 1)
		g.Nodes = append(g.Nodes, onnx.Op("Sin", h, "c"+n).Named("m/m.c."+strconv.Itoa(i)+":Sin"),
			onnx.Op("Split", "c"+n, "a"+n+" b"+n, onnx.A("axis", 1), onnx.A("num_outputs", 2)),
			onnx.Op("Tanh", "a"+n, "t"+n), onnx.Op("Sigmoid", "b"+n, "s"+n), onnx.Op("Mul", "t"+n+" s"+n,
				"z"+n), onnx.Op("Concat", "z"+n+" z"+n, "h"+n, onnx.A("axis", 1)).Named("m/m.r."+strconv.Itoa(i)+":Concat"))
		h = "h" + n
	}
	wantEnds(t, mustRecover(t, g),
		"c1 after split(c1)", "s1 after mul(t1, s1)", "t1 after mul(t1, s1)", "z1 after cat(z1, z1)",
		"h1 after sin(h1)", "c2 after split(c2)", "b1 after split(c2)", "a1 after split(c2)",
		"s2 after mul(t2, s2)", "t2 after mul(t2, s2)", "z2 after cat(z2, z2)", "a2 after cat(z2, z2)",
		"b2 after cat(z2, z2)")
}

// So it does with what is read twice, unless that is read after the next round: then a list has it.
func TestReadTwiceInLoops(t *testing.T) {
	loop := func(last ...onnx.Node) onnx.Graph {
		g := onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "y"}}}
		h := "in"
		for _, n := range []string{"0", "1", "2"} {
			g.Nodes = append(g.Nodes, onnx.Op("Sin", h, "a"+n).Named("m/m.c."+n+":Sin"),
				onnx.Op("ReduceSum", "a"+n, "s"+n).Named("m:ReduceSum"), onnx.Op("ReduceMax", "a"+n, "t"+n).Named("m:ReduceMax"),
				onnx.Op("Add", "s"+n+" t"+n, "h"+n).Named("m:Add"))
			h = "h" + n
		}
		g.Nodes = append(g.Nodes, last...)
		return g
	}
	for _, c := range []struct {
		last []onnx.Node
		want string
	}{
		{[]onnx.Node{onnx.Op("Neg", "h2", "y").Named("m/m.d:Neg")}, "a0 after sin(h0)"},
		{[]onnx.Node{onnx.Op("Mul", "h2 a0", "z").Named("m/m.d:Mul"), onnx.Op("Neg", "z", "y").Named("m/m.e:Neg")},
			"a0 after neg(z)"},
	} {
		got := endsOf(mustRecover(t, loop(c.last...)))
		if !slices.Contains(strings.Split(got, "\n"), c.want) {
			t.Errorf("activations go\n%s\nwanted %q among them", got, c.want)
		}
	}
}

// Where all but the last part of what cat joins have other readers, the list may end before it, torch.cat(xs +
// [self.up(x)], 1); a list that goes on with what is made of its last part has it, ys.append(m(ys[-1])).
func TestLastPartBesideAList(t *testing.T) {
	graph := func(of string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("in", 2, 4), onnx.Float("x", 2, 4)}, Out: []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{
				onnx.Op("Sin", "in", "p0").Named("a.b0:Sin"), onnx.Op("Sin", "p0", "p1").Named("a.b1:Sin"), onnx.Op("Sin", "p1",
					"q").Named("a.b2:Sin"), onnx.Op("Sin", of, "p2").Named("a.up:Sin"),
				onnx.Op("Concat", "p0 p1 p2", "c", onnx.A("axis", 1)).Named("a:Concat"), onnx.Op("Concat", "c q", "d",
					onnx.A("axis", 1)).Named("a:Concat"), onnx.Op("Sqrt", "d", "y").Named("a.last:Sqrt"),
			},
		}
	}
	for of, want := range map[string]string{"x": "p2 after cat(p0, p1, p2)", "p1": "p2 after sqrt(d)"} {
		got := endsOf(mustRecover(t, graph(of)))
		if !slices.Contains(strings.Split(got, "\n"), want) {
			t.Errorf("of %s: activations go\n%s\nwanted %q among them", of, got, want)
		}
	}
}

// x = F.relu(self.fc(x)) assigns x when both are done.
func TestFunctionsAroundModules(t *testing.T) {
	p := mustRecover(t, onnx.Graph{
		In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "y"}},
		Nodes: []onnx.Node{
			onnx.Op("Neg", "in", "a").Named("first:Neg"), onnx.Op("Relu", "a", "b"),
			onnx.Op("Neg", "b", "c").Named("second:Neg"), onnx.Op("Relu", "c", "y"),
		},
	})
	wantEnds(t, p, "a after relu(a)", "c after relu(c)", "b after relu(c)")
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

// A part of what split takes apart of which parts are taken again may be an attribute; another one is none.
func TestKeptParts(t *testing.T) {
	of := func(third string) (names []string) {
		p := mustRecover(t, onnx.Graph{
			In: []onnx.Value{onnx.Float("in", 2, 12, 4)}, Out: []onnx.Value{{Name: "y"}},
			Nodes: []onnx.Node{
				onnx.Op("Exp", "in", "x"),
				onnx.Op("Split", "x", "a b c", onnx.A("axis", 1), onnx.A("num_outputs", 3)),
				onnx.Op("Split", third, "d e", onnx.A("axis", 1), onnx.A("num_outputs", 2)), onnx.Op("Mul", "d e", "f"),
				onnx.Op("Mul", "a b", "g"), onnx.Op("ReduceMean", "g", "h"), onnx.Op("Mul", "f h", "y"),
			},
		})
		p.With = map[string]bool{"kept-parts": true}
		ends, _ := lifetime.Of(p)
		for _, a := range ends.Attributes {
			names = append(names, p.Values[a.Value].Name)
		}
		return names
	}
	if got := of("c"); !slices.Equal(got, []string{"c"}) {
		t.Errorf("kept are %v, want c", got)
	}
	if got := of("b"); got != nil {
		t.Errorf("kept are %v, want none", got)
	}
}

// A decoder's picture is there until the module has run that takes it, made larger, and a skip connection.
func TestSkipConnections(t *testing.T) {
	graph := func(dec string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("in", 1, 2, 4, 4), onnx.Float("skip", 1, 2, 8, 8)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Bare("u.weight", onnxload.Float32, 2, 2, 2, 2)},
			Nodes: []onnx.Node{
				onnx.Op("Exp", "in", "x").Named("e:Exp"), onnx.Op("ConvTranspose", "x u.weight", "up",
					onnx.A("strides", []int64{2, 2})).Named("u:ConvTranspose"),
				onnx.Op("Concat", "up skip", "c", onnx.A("axis", 1)), onnx.Op("Sin", "c", "d").Named(dec), onnx.Op("Neg", "d",
					"y").Named("h:Neg"),
			},
		}
	}
	wantEnds(t, mustRecover(t, graph("d:Sin")), "up after cat(up, skip)", "c after sin(c)", "x after sin(c)",
		"d after neg(d)")
	wantEnds(t, mustRecover(t, graph("")), "x after conv_transpose(x, u.weight, -)", "up after cat(up, skip)",
		"c after sin(c)", "d after neg(d)")

	// It is written down where it is made, and nowhere else.
	p := mustRecover(t, graph("d:Sin"))
	if ends, _ := lifetime.Of(p); !made(ends, "decoder-skip") {
		t.Errorf("made were %v", ends.Guesses)
	}
	p.Without = map[string]bool{"decoder-skip": true}
	wantEnds(t, p, "x after conv_transpose(x, u.weight, -)", "up after cat(up, skip)", "c after sin(c)", "d after neg(d)")
	if ends, _ := lifetime.Of(mustRecover(t, graph(""))); made(ends, "decoder-skip") {
		t.Errorf("without a module that takes both, made were %v", ends.Guesses)
	}
	// What makes the picture larger once more is the next turn of a loop: for up, skip in ...: x = torch.cat([up(x),
	// skip], 1).
	g := graph("d:ConvTranspose")
	g.Inits = append(g.Inits, onnx.Bare("d.weight", onnxload.Float32, 4, 2, 2, 2))
	g.Nodes[3] = onnx.Op("ConvTranspose", "c d.weight", "d", onnx.A("strides", []int64{2, 2})).Named("d:ConvTranspose")
	if ends, _ := lifetime.Of(mustRecover(t, g)); made(ends, "decoder-skip") {
		t.Errorf("in a loop of what makes pictures larger, made were %v", ends.Guesses)
	}
}

// The first operand of a sum lives until the norm has returned that takes the sum, x = norm(x + y).
func TestSumsOfNorms(t *testing.T) {
	graph := func(norm string) onnx.Graph {
		return onnx.Graph{
			In: []onnx.Value{onnx.Float("in", 2, 4)}, Out: []onnx.Value{{Name: "y"}},
			Inits: []onnx.Tensor{onnx.Bare("n.weight", onnxload.Float32, 4)},
			Nodes: []onnx.Node{
				onnx.Op("Exp", "in", "a").Named("a:Exp"), onnx.Op("Sin", "in", "b").Named("b:Sin"), onnx.Op("Add", "a b", "s"),
				onnx.Op("LayerNormalization", "s n.weight", "n").Named(norm), onnx.Op("Neg", "n", "y").Named("h:Neg"),
			},
		}
	}
	p := mustRecover(t, graph("n:LayerNormalization"))
	wantEnds(t, p, "b after add(a, b)", "s after layer_norm(s, n.weight)", "a after layer_norm(s, n.weight)",
		"n after neg(n)")
	if ends, _ := lifetime.Of(p); !made(ends, "summed-first") {
		t.Errorf("made were %v", ends.Guesses)
	}
	if ends, _ := lifetime.Of(mustRecover(t, graph(""))); made(ends, "summed-first") {
		t.Errorf("without a module that takes the sum, made were %v", ends.Guesses)
	}
}

// made reports whether lifetimes rest on a rule.
func made(ends lifetime.Endings, rule string) bool {
	return slices.ContainsFunc(ends.Guesses, func(g program.Guess) bool { return g.Row == rule })
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

// In a loop a name is given to what a turn makes of its value, of whatever size that is: it is a loop where two turns
// have the same operators.
func TestTurnsOfOtherSizes(t *testing.T) {
	turn := func(in, out string) []onnx.Node {
		return []onnx.Node{onnx.Op("Exp", in, in+"1"), onnx.Op("Concat", in+" "+in, in+"2", onnx.A("axis", 1)),
			onnx.Op("Concat", in+"1 "+in+"2", out, onnx.A("axis", 1))}
	}
	graph := func(nodes ...onnx.Node) onnx.Graph {
		nodes = append([]onnx.Node{onnx.Op("Neg", "in", "a")}, nodes...)
		last := nodes[len(nodes)-1].Out[0]
		return onnx.Graph{In: []onnx.Value{onnx.Float("in", 2, 3, 8, 8)}, Out: []onnx.Value{{Name: "y"}},
			Nodes: append(nodes, onnx.Op("Tanh", last, "z"), onnx.Op("Neg", "z", "y"))}
	}
	loop := endsOf(mustRecover(t, graph(append(turn("a", "b"), turn("b", "c")...)...)))
	for _, want := range []string{"a after cat(a1, a2)", "b after cat(b1, b2)"} {
		if !strings.Contains(loop, want) {
			t.Errorf("%q is not in %s", want, loop)
		}
	}
	if once := endsOf(mustRecover(t, graph(turn("a", "b")...))); !strings.Contains(once, "a after neg(z)") {
		t.Errorf("without a loop what is read twice lives to the end: %s", once)
	}
}
