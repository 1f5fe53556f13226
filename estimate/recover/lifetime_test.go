package recover_test

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/recovertest"
	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// ends describes when the activations of a program go: "a after relu(x)", one a line.
func endsOf(p *program.Program) string {
	ends := p.Liveness()
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
