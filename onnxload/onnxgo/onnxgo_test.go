package onnxgo_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	onnx "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/simple"
)

func read(t *testing.T, b []byte) *onnxload.Model {
	t.Helper()
	m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// outline writes the nodes of the main graph by the names of their values.
func outline(m *onnxload.Model) string {
	var b strings.Builder
	name := func(ids []onnxload.ValueID) []string {
		var s []string
		for _, id := range ids {
			if id == onnxload.NoValue {
				s = append(s, "-")
			} else {
				s = append(s, m.Values[id].Name)
			}
		}
		return s
	}
	fmt.Fprintln(&b, "in", name(m.Graph.Inputs), "out", name(m.Graph.Outputs))
	for _, n := range m.Graph.Nodes {
		fmt.Fprint(&b, n.Op, n.Version, name(n.In), name(n.Out))
		byName := func(a, b onnxload.Attr) int { return strings.Compare(a.Name, b.Name) }
		attrs := slices.SortedFunc(slices.Values(n.Attrs), byName)
		for _, a := range attrs {
			fmt.Fprint(&b, " ", a.Name, a.Int, a.Float, a.Ints, a.Floats, a.Strs, a.Str, len(a.Tensors))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

var branch = Graph{Nodes: []Node{Op("Add", "y w", "t")}, Out: []Value{{Name: "t"}}}

// plain is a model that onnx-go decodes as it is.
var plain = Model{Opset: 9, Graph: Graph{
	In: []Value{Float("x", 2, 3)},
	Nodes: []Node{
		Op("Constant", "", "shape", A("value", Int64s("", 3, 2))).Named("c"),
		Op("Reshape", "x shape", "r"),
		Op("MatMul", "r w", "m"),
		Op("Mul", "m m", "s"),
		Op("Split", "s", "a b", A("axis", 1), A("split", []int64{2, 2})),
		Op("Clip", "a - -", "y", A("alpha", float32(0.5)), A("names", []string{"p", "q"}), A("s", "text"),
			A("fs", []float32{1, 2})),
	},
	Inits: []Tensor{Zeros("w", onnxload.Float32, 2, 4)},
	Out:   []Value{Float("y", 3, 2), {Name: "b"}},
}}

var fixtures = map[string]Model{
	"plain":    plain,
	"no nodes": {Graph: Graph{In: []Value{Float("x", 1)}, Out: []Value{Float("x", 1)}}},
	"no outputs": {Graph: Graph{In: []Value{Float("x", 1)},
		Nodes: []Node{Op("Print", "x x", ""), Op("Print", "x", "")}}},
	"odd names": {Graph: Graph{In: []Value{Float("\xff|\n", 1)},
		Nodes: []Node{{Op: "Neg", Name: "\x80", In: []string{"\xff|\n"}, Out: []string{"y"}}}}},
	"symbolic": {Graph: Graph{In: []Value{Float("x", "n", 3)}, Nodes: []Node{Op("Neg", "x", "y")},
		Out: []Value{Float("y", "n", 3)}}},
	"domains": {Graph: Graph{In: []Value{Float("x", 1)},
		Nodes: []Node{Op("Gelu", "x", "y").Of("com.microsoft"), Op("Neg", "y", "z").Of("ai.onnx")}}},
	"out of order": {Graph: Graph{In: []Value{Float("x", 1)},
		Nodes: []Node{Op("Neg", "b", "c"), Op("Print", "x", ""), Op("Neg", "x", "b"), Op("Print", "b", "")}}},
	"empty in and out": {Graph: Graph{In: []Value{Float("x", 1)}, Inits: []Tensor{Zeros("W", onnxload.Float16, 1)},
		Nodes: []Node{Op("LSTM", "x W W - - x", "- y -"), Op("LSTM", "x W W", "- z")}}},
	"attributes": {Graph: Graph{Nodes: []Node{Op("X", "", "y",
		A("t", Zeros("", onnxload.BFloat16, 3)), A("i", Untyped{Value: 3}), A("ts", []Tensor{Int64s("", 1)}), A("sp",
			SparseOf(Float32s("", 1), Int64s("", 0), 2)),
		A("tp", TensorOf(onnxload.Float32)), A("long", strings.Repeat("x", 2<<20)), A("none", []int64{}))}}},
	"subgraphs": {Graph: Graph{In: []Value{Float("x", 1), {Name: "c"}}, Inits: []Tensor{Int64s("w", 1)},
		Nodes: []Node{
			Op("Neg", "x", "y"),
			Op("If", "c", "z", A("then_branch", branch), A("else_branch",
				Graph{Nodes: []Node{Op("Loop", "- c", "l", A("body", Graph{
					In: []Value{{Name: "i"}, {Name: "k"}}, Nodes: []Node{Op("Sub", "y w", "t")}, Out: []Value{{Name: "k"},
						{Name: "t"}}}))}, Out: []Value{{Name: "l"}}})),
			Op("Multi", "z", "q", A("graphs", []Graph{branch, {}})),
		}}},
	"functions": {Opsets: []Import{Domain("l", 1)}, Functions: []Function{
		{Domain: "l", Name: "F", In: []string{"a"}, Out: []string{"b"},
			Nodes: []Node{Op("Neg", "a", "h"), Op("If", "h", "b",
				A("then_branch", Graph{Nodes: []Node{Op("Abs", "h", "t")}, Out: []Value{{Name: "t"}}}))}},
	}, Graph: Graph{In: []Value{Float("x", 1)}, Nodes: []Node{Op("F", "x", "y").Of("l"), Op("Neg", "y", "z"),
		Op("F", "z", "").Of("l")}}},
	"weights of all types": {Graph: Graph{In: []Value{Float("x", 1)}, Nodes: []Node{Op("Neg", "x", "y")}, Inits: []Tensor{
		Zeros("a", onnxload.Float16, 2), Zeros("b", onnxload.Int4, 3), Bare("c", onnxload.Float32, 5), Zeros("d",
			onnxload.Bool, 8), Float32s("e"), Int64s("f", 1, 2),
		{Name: "g", DType: onnxload.String, Dims: []int64{1}, Typed: []string{"s"}}, {Name: "h", DType: onnxload.Float32,
			Dims: []int64{1}, External: []string{"location", "x"}}}}},
}

func TestCheck(t *testing.T) {
	for name, model := range fixtures {
		b := model.Bytes()
		m := read(t, b)
		rep, err := onnxgo.Check(m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		s, err := onnxload.ReadStream(bytes.NewReader(b), onnxload.Options{})
		if err != nil {
			t.Fatal(err)
		}
		srep, err := onnxgo.Check(s)
		if err != nil {
			t.Errorf("%s, as a stream: %v", name, err)
		}
		if !rep.File || srep.File || rep.Nodes != srep.Nodes || rep.Graphs != srep.Graphs {
			t.Errorf("%s: file %+v, stream %+v", name, rep, srep)
		}
		graphs, nodes := count(m.Graph)
		if rep.Graphs != graphs || rep.Nodes != nodes {
			t.Errorf("%s: compared %d nodes in %d graphs, the model has %d in %d", name, rep.Nodes, rep.Graphs, nodes, graphs)
		}
		if name == "functions" && rep.Calls != 2 {
			t.Errorf("%d calls, want 2", rep.Calls)
		}
	}
}

func count(g *onnxload.Graph) (graphs, nodes int) {
	graphs, nodes = 1, len(g.Nodes)
	for _, n := range g.Nodes {
		for _, a := range n.Attrs {
			for _, s := range a.Graphs {
				sg, sn := count(s)
				graphs, nodes = graphs+sg, nodes+sn
			}
		}
	}
	return graphs, nodes
}

// A reader that got anything wrong must be found out.
func TestCheckFindsDifferences(t *testing.T) {
	cases := []struct {
		name  string
		model string
		spoil func(m *onnxload.Model)
		want  string
	}{
		{"operator", "plain", func(m *onnxload.Model) { m.Graph.Nodes[1].Op = "Reshop" },
			`node 1 "" ("Reshop"): operator "Reshape"`},
		{"inputs swapped", "plain", func(m *onnxload.Model) { in := m.Graph.Nodes[2].In; in[0], in[1] = in[1], in[0] },
			`inputs ["r" "w"], onnxload has ["w" "r"]`},
		{"input lost", "plain", func(m *onnxload.Model) { n := &m.Graph.Nodes[3]; n.In = n.In[:1] }, `inputs ["m" "m"]`},
		{"trailing input lost", "plain", func(m *onnxload.Model) { n := &m.Graph.Nodes[5]; n.In = n.In[:2] },
			`inputs ["a" "" ""]`},
		{"outputs swapped", "plain", func(m *onnxload.Model) { o := m.Graph.Nodes[4].Out; o[0], o[1] = o[1], o[0] },
			"onnxload does not have it"},
		{"output lost", "plain", func(m *onnxload.Model) { n := &m.Graph.Nodes[4]; n.Out = n.Out[:1] },
			`outputs ["a" "b"], onnxload has ["a"]`},
		{"node lost", "plain", func(m *onnxload.Model) { m.Graph.Nodes = m.Graph.Nodes[:5] },
			`node 5 "" ("Clip"): onnxload does not have it`},
		{"node invented", "plain", func(m *onnxload.Model) {
			m.Graph.Nodes = append(m.Graph.Nodes, onnxload.Node{Op: "X", Name: "more",
				Out: []onnxload.ValueID{m.Graph.Inputs[0]}})
		}, `node 6 "more" ("X"): onnx-go does not have it`},
		{"attribute renamed", "plain", func(m *onnxload.Model) { m.Graph.Nodes[4].Attrs[0].Name = "axes" },
			`no attribute "axes"`},
		{"attribute lost", "plain", func(m *onnxload.Model) { n := &m.Graph.Nodes[4]; n.Attrs = n.Attrs[:1] },
			"2 attributes, onnxload has 1"},
		{"attribute value", "plain", func(m *onnxload.Model) { m.Graph.Nodes[4].Attrs[1].Ints[1] = 3 }, `attribute "split"`},
		{"domain", "domains", func(m *onnxload.Model) { m.Graph.Nodes[0].Domain = "" }, `domain "com.microsoft"`},
		{"in a subgraph", "subgraphs", func(m *onnxload.Model) {
			m.Graph.Nodes[1].Attrs[1].Graphs[0].Nodes[0].Attrs[0].Graphs[0].Nodes[0].Op = "Mul"
		}, `node 1 "" ("If"), else_branch: node 0 "" ("Loop"), body: node 0 "" ("Mul"): operator "Sub"`},
		{"subgraph lost", "subgraphs", func(m *onnxload.Model) { m.Graph.Nodes[2].Attrs[0].Graphs = nil },
			"no such subgraph"},
	}
	for _, c := range cases {
		m := read(t, fixtures[c.model].Bytes())
		c.spoil(m)
		_, err := onnxgo.Check(m)
		var d *onnxgo.Difference
		if !errors.As(err, &d) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", c.name, err, c.want)
		}
	}
}

// Every skeleton loads into onnx-go, tensors included.
func TestSkeleton(t *testing.T) {
	for name, model := range fixtures {
		m := read(t, model.Bytes())
		if len(m.Graph.Nodes) == 0 {
			continue // onnx-go has no graphs without nodes
		}
		s := onnxgo.Skeleton(m)
		for _, tensors := range []bool{false, true} {
			b := &onnxgo.Backend{Tensors: tensors}
			if err := onnxgo.Decode(onnx.NewModel(b), s); err != nil {
				t.Errorf("%s, tensors %v: %v", name, tensors, err)
			}
		}
	}
	b := onnxgo.Skeleton(read(t, fixtures["weights of all types"].Bytes()))
	if bytes.Contains(b, []byte("location")) {
		t.Error("the skeleton has external data")
	}
}

func TestBackend(t *testing.T) {
	data := plain.Bytes()
	want := outline(read(t, data))
	b := &onnxgo.Backend{Tensors: true}
	om := onnx.NewModel(b)
	if err := onnxgo.Decode(om, data); err != nil {
		t.Fatal(err)
	}
	batch := onnxload.Type{Kind: onnxload.TensorType, Elem: onnxload.Float32, HasRank: true,
		Dims: []onnxload.Dim{{Param: "n"}, {Known: true, Size: 3}}}
	m, err := b.Model(om, onnxgo.Options{Path: "p", Opset: 9, Types: map[string]onnxload.Type{"x": batch}})
	if err != nil {
		t.Fatal(err)
	}
	if got := outline(m); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if x := m.Values[m.Graph.Inputs[0]]; x.Name != "x" || x.Type().Dims[0].Param != "n" {
		t.Errorf("input %+v", x)
	}
	w := m.Values[m.Graph.Inits[0]].Init
	if w == nil || w.DType != onnxload.Float32 || !slices.Equal(w.Dims, []int64{2, 4}) {
		t.Errorf("weight %+v", w)
	}
	c := m.Graph.Nodes[0].Attr("value").Tensors[0]
	if v, err := m.Ints(c); err != nil || !slices.Equal(v, []int64{3, 2}) {
		t.Errorf("constant %v, %v", v, err)
	}
	if _, err := onnxgo.Check(m); err != nil {
		t.Error(err)
	}
}

// Without tensors the types of weights must be said.
func TestBackendWithoutTensors(t *testing.T) {
	b := &onnxgo.Backend{}
	om := onnx.NewModel(b)
	if err := onnxgo.Decode(om, plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Model(om, onnxgo.Options{}); err == nil || !strings.Contains(err.Error(), "Opset") {
		t.Errorf("no operator set: %v", err)
	}
	if _, err := b.Model(om, onnxgo.Options{Opset: 9}); err == nil || !strings.Contains(err.Error(), `weight "w"`) {
		t.Errorf("no weight: %v", err)
	}
	w := onnxload.Type{Kind: onnxload.TensorType, Elem: onnxload.Float16, HasRank: true,
		Dims: []onnxload.Dim{{Known: true, Size: 2}, {Known: true, Size: 4}}}
	m, err := b.Model(om, onnxgo.Options{Opset: 9, Types: map[string]onnxload.Type{"w": w}})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := m.Values[m.Graph.Inits[0]].Init.Bytes(); err != nil || n != 16 {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := m.Floats(m.Values[m.Graph.Inits[0]].Init); !errors.Is(err, onnxload.ErrNoData) {
		t.Errorf("data of a weight: %v", err)
	}
}

// A Tee hands the model to a backend that knows nothing of it, and records it.
func TestTee(t *testing.T) {
	model := Model{Opset: 9, Graph: Graph{In: []Value{Float("x", 2)},
		Nodes: []Node{Op("Relu", "x", "y"), Op("Add", "y b", "z")}, Inits: []Tensor{Float32s("b", 1, 2)},
		Out: []Value{Float("z", 2)}}}
	data := model.Bytes()
	dst := simple.NewSimpleGraph()
	b := onnxgo.Tee(dst)
	om := onnx.NewModel(b)
	if err := onnxgo.Decode(om, data); err != nil {
		t.Fatal(err)
	}
	if n := len(slices.Collect(func(yield func(int64) bool) {
		for ns := dst.Nodes(); ns.Next(); {
			if !yield(ns.Node().ID()) {
				return
			}
		}
	})); n != 4 {
		t.Errorf("the backend has %d values, want 4", n)
	}
	two := onnxload.Type{Kind: onnxload.TensorType, Elem: onnxload.Float32, HasRank: true,
		Dims: []onnxload.Dim{{Known: true, Size: 2}}}
	m, err := b.Model(om, onnxgo.Options{Opset: 9, Types: map[string]onnxload.Type{"x": two, "b": two}})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := outline(m), outline(read(t, data)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestDirected(t *testing.T) {
	b := &onnxgo.Backend{}
	om := onnx.NewModel(b)
	if err := onnxgo.Decode(om, plain.Bytes()); err != nil {
		t.Fatal(err)
	}
	m, _ := om.GetNodeByName("m")
	s, _ := om.GetNodeByName("s")
	if !b.HasEdgeFromTo(s.ID(), m.ID()) || b.HasEdgeFromTo(m.ID(), s.ID()) || !b.HasEdgeBetween(m.ID(), s.ID()) ||
		b.Node(m.ID()) != m {
		t.Error("the edge from s to m is not there")
	}
	if n := b.From(s.ID()).Len(); n != 1 {
		t.Errorf("%d values from s, want 1: m, read twice", n)
	}
	if n := b.To(m.ID()).Len(); n != 1 {
		t.Errorf("%d values to m, want 1", n)
	}
	if b.Nodes().Len() < 8 {
		t.Errorf("%d values", b.Nodes().Len())
	}
}

// onnx-go panics on a tensor whose data does not fit its shape.
func TestPanicsAreErrors(t *testing.T) {
	bad := Model{Graph: Graph{In: []Value{Float("x", 2)}, Nodes: []Node{Op("Add", "x w", "y")},
		Out:   []Value{Float("y", 2)},
		Inits: []Tensor{{Name: "w", DType: onnxload.Float32, Dims: []int64{3}, Raw: make([]byte, 8)}}}}
	err := onnxgo.Decode(onnx.NewModel(&onnxgo.Backend{Tensors: true}), bad.Bytes())
	if err == nil || !strings.Contains(err.Error(), "onnx-go panics") {
		t.Errorf("%v", err)
	}
	if err := onnxgo.Decode(onnx.NewModel(&onnxgo.Backend{}), []byte{0xff}); err == nil ||
		!strings.HasPrefix(err.Error(), "onnx-go: ") {
		t.Errorf("%v", err)
	}
}
