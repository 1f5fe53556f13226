package onnxload_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// read reads a model that must be good, as a file and as a stream, and returns
// the former.
func read(t *testing.T, m Model) *onnxload.Model {
	t.Helper()
	b := m.Bytes()
	got, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{})
	must.OK(t, err)
	s, err := onnxload.ReadStream(iotestOneByte{bytes.NewReader(b)}, onnxload.Options{})
	if err != nil {
		t.Fatalf("as a stream: %v", err)
	}
	if a, b := dump(got), dump(s); a != b {
		t.Fatalf("a stream gives another model:\n%s\nwant\n%s", b, a)
	}
	return got
}

type iotestOneByte struct{ r *bytes.Reader }

func (r iotestOneByte) Read(p []byte) (int, error) { return r.r.Read(p[:min(1, len(p))]) }

// dump writes a graph with its values' names.
func dump(m *onnxload.Model) string {
	var b strings.Builder
	name := func(ids []onnxload.ValueID) string {
		var s []string
		for _, id := range ids {
			if id == onnxload.NoValue {
				s = append(s, "-")
			} else {
				s = append(s, m.Values[id].Name)
			}
		}
		return strings.Join(s, " ")
	}
	var graph func(g *onnxload.Graph, indent string)
	graph = func(g *onnxload.Graph, indent string) {
		fmt.Fprintf(&b, "%sgraph(%s) inits(%s)\n", indent, name(g.Inputs), name(g.Inits))
		for _, n := range g.Nodes {
			fmt.Fprintf(&b, "%s  %s = ", indent, name(n.Out))
			if n.Domain != "" {
				b.WriteString(n.Domain + ".")
			}
			fmt.Fprintf(&b, "%s-%d(%s)", n.Op, n.Version, name(n.In))
			if n.More != nil && n.More.Scope != "" {
				b.WriteString(" @" + n.More.Scope)
			}
			for _, e := range n.Meta() {
				b.WriteString(" #" + e.Key + "=" + e.Value)
			}
			for _, a := range n.Attrs {
				fmt.Fprintf(&b, " %s:%v", a.Name, a.Type)
				switch a.Type {
				case onnxload.AttrInt:
					fmt.Fprintf(&b, "=%d", a.Int)
				case onnxload.AttrFloat:
					fmt.Fprintf(&b, "=%g", a.Float)
				case onnxload.AttrString:
					fmt.Fprintf(&b, "=%q", a.Str)
				case onnxload.AttrInts:
					fmt.Fprintf(&b, "=%v", a.Ints)
				case onnxload.AttrFloats:
					fmt.Fprintf(&b, "=%v", a.Floats)
				case onnxload.AttrStrings:
					fmt.Fprintf(&b, "=%q", a.Strs)
				}
				for _, t := range a.Tensors {
					fmt.Fprintf(&b, " %s%v", t.DType, t.Dims)
				}
				for _, t := range a.Types {
					fmt.Fprintf(&b, " kind %d", t.Kind)
				}
			}
			b.WriteString("\n")
			for _, a := range n.Attrs {
				for _, g := range a.Graphs {
					graph(g, indent+"    ")
				}
			}
		}
		fmt.Fprintf(&b, "%sreturn %s\n", indent, name(g.Outputs))
	}
	graph(m.Graph, "")
	return b.String()
}

func wantDump(t *testing.T, m *onnxload.Model, want string) {
	t.Helper()
	got := strings.TrimSpace(dump(m))
	want = strings.ReplaceAll(strings.TrimSpace(want), "\t", "")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestHeader(t *testing.T) {
	m := read(t, Model{
		IR: 8, Opset: 17, Opsets: []Import{Domain("com.microsoft", 1)}, Producer: "pytorch",
		Meta: []onnxload.Entry{{Key: "a", Value: "b"}},
		Graph: Graph{
			Name: "main", In: []Value{Float("x", "batch", 3, nil)},
			Nodes: []Node{Op("Relu", "x", "y"), Op("Gelu", "y", "z").Of("com.microsoft"), Op("Other", "z", "w").Of("org.x"),
				Op("Neg", "w", "v").Of("ai.onnx")},
			Out: []Value{Float("v", "batch", 3, nil)},
		},
	})
	if m.IRVersion != 8 || m.Producer != "pytorch" || m.Opsets[""] != 17 || m.Opsets["com.microsoft"] != 1 ||
		m.Metadata["a"] != "b" || m.Graph.Name != "main" {
		t.Errorf("header is %+v", m)
	}
	wantDump(t, m, `
graph(x) inits()
  y = Relu-17(x)
  z = com.microsoft.Gelu-1(y)
  w = org.x.Other-1(z)
  v = Neg-17(w)
return v`)
	d := m.Values[m.Graph.Inputs[0]].Type().Dims
	want := []onnxload.Dim{{Param: "batch"}, {Known: true, Size: 3}, {}}
	if !slices.Equal(d, want) {
		t.Errorf("dims %+v, want %+v", d, want)
	}
}

func TestAttributes(t *testing.T) {
	all := []Attr{
		A("f", float32(1.5)), A("i", -3), A("s", "\xff|x"), A("t", Int64s("", 1, 2)), A("fs", []float32{1, 2}),
		A("is", []int64{-1, 1 << 40}), A("ss", []string{"a", ""}), A("ts", []Tensor{Int64s("a", 1), Float32s("b")}),
		A("sp", SparseOf(Float32s("v", 5), Int64s("i", 1), 4)), A("tp",
			Type{Kind: onnxload.SequenceType, Of: &Type{Kind: onnxload.TensorType}}),
		A("tps", []Type{TensorOf(onnxload.Float32, 1), {Kind: onnxload.OptionalType, Of: &Type{Kind: onnxload.TensorType}}}),
		A("none", []int64{}), A("u", Untyped{Value: 7}),
	}
	m := read(t, Model{Graph: Graph{Nodes: []Node{Op("X", "", "y", all...)}, Out: []Value{{Name: "y"}}}})
	wantDump(t, m, `
graph() inits()
  y = X-21() f:FLOAT=1.5 i:INT=-3 s:STRING="\xff|x" t:TENSOR int64[2] fs:FLOATS=[1 2] is:INTS=[-1 1099511627776] `+
		`ss:STRINGS=["a" ""] ts:TENSORS int64[1] float32[0] sp:SPARSE_TENSOR float32[4] tp:TYPE_PROTO kind 3 `+
		`tps:TYPE_PROTOS kind 1 kind 5 none:INTS=[] u:INT=7
return y`)
}

func TestTypes(t *testing.T) {
	tensor := TensorOf(onnxload.Float16, 2)
	seq := Type{Kind: onnxload.SequenceType, Of: &tensor}
	m := read(t, Model{Graph: Graph{
		In: []Value{
			Typed("a", Type{Kind: onnxload.TensorType, Elem: onnxload.Int2, NoRank: true}), Typed("b",
				TensorOf(onnxload.Float32)),
			Typed("c", Type{Kind: onnxload.SparseTensorType, Elem: onnxload.Float32, Dims: []any{3, "n"}}), Typed("d", seq),
			Typed("e", Type{Kind: onnxload.OptionalType, Of: &seq}), Typed("f",
				Type{Kind: onnxload.MapType, Elem: onnxload.String, Of: &tensor}),
			Typed("g", Type{Kind: onnxload.OpaqueType}), {Name: "h"},
		},
		Out: []Value{{Name: "a"}},
	}})
	var got []string
	for _, id := range m.Graph.Inputs {
		ty := m.Values[id].Type()
		s := fmt.Sprint(ty.Kind, ty.Elem, ty.HasRank, ty.Dims)
		for ty.Of != nil {
			ty = *ty.Of
			s += fmt.Sprint(" of ", ty.Kind, ty.Elem, ty.HasRank, ty.Dims)
		}
		got = append(got, s)
	}
	want := []string{
		"1int2false []", "1float32true []", "2float32true [{true 3 } {false 0 n}]",
		"3undefinedfalse [] of 1float16true [{true 2 }]",
		"5undefinedfalse [] of 3undefinedfalse [] of 1float16true [{true 2 }]", "4stringfalse [] of 1float16true [{true 2 }]",
		"6undefinedfalse []", "0undefinedfalse []",
	}
	for i := range want {
		if strings.ReplaceAll(got[i], " ", "") != strings.ReplaceAll(want[i], " ", "") {
			t.Errorf("input %d: %s, want %s", i, got[i], want[i])
		}
	}
}

// The If's branches capture x, one of them shadows it; the Loop inside captures through two levels.
func TestSubgraphScopes(t *testing.T) {
	loop := Graph{In: []Value{{Name: "i"}, {Name: "c"}}, Nodes: []Node{Op("Add", "x w", "s")},
		Out: []Value{{Name: "c"}, {Name: "s"}}}
	then := Graph{Nodes: []Node{Op("Loop", "- cond", "t", A("body", loop)), Op("Neg", "x", "x2")},
		Out: []Value{{Name: "t"}}}
	shadow := Graph{Inits: []Tensor{Int64s("x", 7)}, Nodes: []Node{Op("Identity", "x", "y")}, Out: []Value{{Name: "y"}}}
	m := read(t, Model{Graph: Graph{
		In: []Value{{Name: "x"}, {Name: "cond"}}, Inits: []Tensor{Int64s("w", 1)},
		Nodes: []Node{Op("If", "cond", "z", A("then_branch", then), A("else_branch", shadow)), Op("Neg", "x", "y")},
		Out:   []Value{{Name: "z"}, {Name: "y"}},
	}})
	wantDump(t, m, `
graph(x cond) inits(w)
  z = If-21(cond) then_branch:GRAPH else_branch:GRAPH
    graph() inits()
      t = Loop-21(- cond) body:GRAPH
        graph(i c) inits()
          s = Add-21(x w)
        return c s
      x2 = Neg-21(x)
    return t
    graph() inits(x)
      y = Identity-21(x)
    return y
  y = Neg-21(x)
return z y`)
	x := m.Graph.Inputs[0]
	if got := m.Graph.Nodes[0].Attrs[0].Graphs[0].Nodes[0].Attrs[0].Graphs[0].Nodes[0].In[0]; got != x {
		t.Errorf("the loop's x is value %d, want %d", got, x)
	}
	inner := m.Graph.Nodes[0].Attrs[1].Graphs[0]
	if inner.Nodes[0].In[0] != inner.Inits[0] || inner.Inits[0] == x {
		t.Error("the shadowing x is not the subgraph's own")
	}
	if inner.Outputs[0] == m.Graph.Nodes[1].Out[0] {
		t.Error("two graphs share the value of their y")
	}
}

func TestOrder(t *testing.T) {
	// d waits for the If, whose branch captures c.
	then := Graph{Nodes: []Node{Op("Neg", "c", "t")}, Out: []Value{{Name: "t"}}}
	m := read(t, Model{Graph: Graph{
		In: []Value{{Name: "x"}},
		Nodes: []Node{Op("Neg", "i", "d"), Op("If", "x", "i", A("then_branch", then)), Op("Abs", "x", "e"),
			Op("Neg", "b", "c"), Op("Neg", "x", "b")},
		Out: []Value{{Name: "d"}},
	}})
	wantDump(t, m, `
graph(x) inits()
  e = Abs-21(x)
  b = Neg-21(x)
  c = Neg-21(b)
  i = If-21(x) then_branch:GRAPH
    graph() inits()
      t = Neg-21(c)
    return t
  d = Neg-21(i)
return d`)
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "topological") {
		t.Errorf("notes %q, want one about the order", m.Notes)
	}
}

func TestFunctions(t *testing.T) {
	inner := Function{Domain: "f", Name: "Inner", In: []string{"a", "b"}, Out: []string{"r"}, Attrs: []string{"k"},
		Nodes: []Node{
			Op("Clip", "a b -", "m", A("alpha", RefTo("k", onnxload.AttrInt))),
			{Op: "Neg", In: []string{"m"}, Out: []string{"r"}, Meta: []onnxload.Entry{{Key: "own", Value: "1"},
				{Key: "who", Value: "body"}}},
		},
		Opsets: []Import{Domain("", 13)}}
	body := Graph{Nodes: []Node{Op("Add", "p w", "q", A("axis", RefTo("axis", onnxload.AttrInt)))},
		Out: []Value{{Name: "q"}}}
	outer := Function{Domain: "f", Name: "Outer", In: []string{"p", "w"}, Out: []string{"u", "through"},
		Defaults: []Attr{A("axis", 5)}, Attrs: []string{"k"},
		Nodes: []Node{
			Op("Inner", "p", "h", A("k", RefTo("k", onnxload.AttrInt))).Of("f").Named("call"),
			Op("If", "h", "u", A("then_branch", body)),
			Op("Identity", "p", "through2"),
		},
		Opsets: []Import{Domain("", 18), Domain("f", 1)}}
	outer.Out[1] = "p" // an input handed through
	overload := Function{Domain: "f", Name: "Inner", Overload: "x", In: []string{"a"}, Out: []string{"o"},
		Nodes: []Node{Op("Abs", "a", "o")}}
	call := Op("Outer", "x v", "y z", A("k", 9)).Of("f")
	call.Meta = []onnxload.Entry{{Key: "who", Value: "call"}, {Key: "pkg", Value: "m"}}
	third := Op("Inner", "z", "o").Of("f")
	third.Overload = "x"
	m := read(t, Model{
		Opset: 21, Opsets: []Import{Domain("f", 1)}, Functions: []Function{inner, outer, overload},
		Graph: Graph{
			In:    []Value{{Name: "x"}, {Name: "v"}},
			Nodes: []Node{call, Op("Outer", "y -", "y2", A("axis", 2)).Of("f"), third},
			Out:   []Value{{Name: "y2"}, {Name: "o"}},
		},
	})
	if m.Functions != 3 {
		t.Errorf("%d functions, want 3", m.Functions)
	}
	wantDump(t, m, `
graph(x v) inits()
  Outer_0/call/m = Clip-13(x - -) @Outer_0/call #who=call #pkg=m alpha:INT=9
  Outer_0/h = Neg-13(Outer_0/call/m) @Outer_0/call #own=1 #who=body #pkg=m
  y = If-18(Outer_0/h) @Outer_0 #who=call #pkg=m then_branch:GRAPH
    graph() inits()
      Outer_0/q = Add-18(x v) @Outer_0 #who=call #pkg=m axis:INT=5
    return Outer_0/q
  Outer_0/through2 = Identity-18(x) @Outer_0 #who=call #pkg=m
  z = Identity-18(x) @Outer_0
  Outer_1/call/m = Clip-13(y - -) @Outer_1/call
  Outer_1/h = Neg-13(Outer_1/call/m) @Outer_1/call #own=1 #who=body
  y2 = If-18(Outer_1/h) @Outer_1 then_branch:GRAPH
    graph() inits()
      Outer_1/q = Add-18(y -) @Outer_1 axis:INT=2
    return Outer_1/q
  Outer_1/through2 = Identity-18(y) @Outer_1
  o = Abs-21(z) @Inner_2
return y2 o`)
	seen := map[string]bool{}
	for _, v := range m.Values {
		if seen[v.Name] {
			t.Errorf("value name %q is there twice", v.Name)
		}
		seen[v.Name] = true
	}
}

// Files of IR version 3 and below list initializers as inputs too.
func TestInitializersListedAsInputs(t *testing.T) {
	m := read(t, Model{IR: 3, Opset: 9, Graph: Graph{
		Inits: []Tensor{Bare("w", onnxload.Float32, 3, 2), Bare("unused", onnxload.Float32, 9)},
		In:    []Value{Float("x", 2), Float("w", 3, 2), Float("unused", 9)},
		Nodes: []Node{Op("MatMul", "w x", "y")}, Out: []Value{{Name: "y"}},
	}})
	wantDump(t, m, `
graph(x) inits(w unused)
  y = MatMul-9(w x)
return y`)
	if w := m.Values[m.Graph.Inits[0]]; w.Init == nil || len(w.Type().Dims) != 2 {
		t.Errorf("w is %+v", w)
	}
}

func TestValueInfoAndOutputs(t *testing.T) {
	m := read(t, Model{Graph: Graph{
		In: []Value{Float("x", 1)}, Nodes: []Node{Op("Neg", "x", "h"), Op("Neg", "h", "y")},
		Infos: []Value{Float("h", 5), Float("y", 6), Float("stale", 7)},
		Out:   []Value{Typed("y", Type{Kind: onnxload.TensorType, Elem: onnxload.Float32, NoRank: true}), {Name: "x"}},
	}})
	if h := m.Values[m.Graph.Nodes[0].Out[0]].Type(); h.Dims[0].Size != 5 {
		t.Errorf("h is %+v", h)
	}
	if y := m.Values[m.Graph.Outputs[0]].Type(); !y.HasRank || y.Dims[0].Size != 6 {
		t.Errorf("y is %+v: an output without shape must not hide its value_info", y)
	}
	if m.Graph.Outputs[1] != m.Graph.Inputs[0] {
		t.Error("an output that is an input is another value")
	}
}

// A buffer "t" beside the result "t" of a node: nodes up to that read the buffer, later ones the result.
func TestShadowedInitializer(t *testing.T) {
	m := read(t, Model{Graph: Graph{
		In: []Value{Float("x", 2)}, Out: []Value{{Name: "y"}}, Inits: []Tensor{Zeros("t", onnxload.Float32, 2)},
		Nodes: []Node{Op("Add", "x t", "a"), Op("Mul", "a t", "t"), Op("Sub", "t a", "y")},
	}})
	buffer, nodes := m.Graph.Inits[0], m.Graph.Nodes
	if nodes[0].In[1] != buffer || nodes[1].In[1] != buffer || nodes[2].In[0] != nodes[1].Out[0] ||
		nodes[1].Out[0] == buffer {
		t.Errorf("initializer %d, nodes %v", buffer, nodes)
	}
	if len(m.Notes) != 1 || !strings.Contains(m.Notes[0], `produces "t", which is an initializer too`) {
		t.Errorf("notes %q", m.Notes)
	}
}
