package onnxgo_test

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	onnx "github.com/owulveryck/onnx-go"
	"github.com/owulveryck/onnx-go/backend/simple"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

func read(t *testing.T, b []byte) *onnxload.Model {
	t.Helper()
	m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{})
	must.OK(t, err)
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

func TestBackend(t *testing.T) {
	data := plain.Bytes()
	want := outline(read(t, data))
	b := onnxgo.New(true)
	om := onnx.NewModel(b)
	must.OK(t, onnxgo.Decode(om, data))
	batch := onnxload.Type{Kind: onnxload.TensorType, Elem: onnxload.Float32, HasRank: true,
		Dims: []onnxload.Dim{{Param: "n"}, {Known: true, Size: 3}}}
	m, err := b.Model(om, onnxgo.Options{Path: "p", Opset: 9, Types: map[string]onnxload.Type{"x": batch}})
	must.OK(t, err)
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
}

// Without tensors the types of weights must be said.
func TestBackendWithoutTensors(t *testing.T) {
	b := onnxgo.New(false)
	om := onnx.NewModel(b)
	must.OK(t, onnxgo.Decode(om, plain.Bytes()))
	if _, err := b.Model(om, onnxgo.Options{}); err == nil || !strings.Contains(err.Error(), "Opset") {
		t.Errorf("no operator set: %v", err)
	}
	if _, err := b.Model(om, onnxgo.Options{Opset: 9}); err == nil || !strings.Contains(err.Error(), `weight "w"`) {
		t.Errorf("no weight: %v", err)
	}
	w := onnxload.Type{Kind: onnxload.TensorType, Elem: onnxload.Float16, HasRank: true,
		Dims: []onnxload.Dim{{Known: true, Size: 2}, {Known: true, Size: 4}}}
	m, err := b.Model(om, onnxgo.Options{Opset: 9, Types: map[string]onnxload.Type{"w": w}})
	must.OK(t, err)
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
	must.OK(t, onnxgo.Decode(om, data))
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
	must.OK(t, err)
	if got, want := outline(m), outline(read(t, data)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// onnx-go panics on a tensor whose data does not fit its shape.
func TestPanicsAreErrors(t *testing.T) {
	bad := Model{Graph: Graph{In: []Value{Float("x", 2)}, Nodes: []Node{Op("Add", "x w", "y")},
		Out:   []Value{Float("y", 2)},
		Inits: []Tensor{{Name: "w", DType: onnxload.Float32, Dims: []int64{3}, Raw: make([]byte, 8)}}}}
	err := onnxgo.Decode(onnx.NewModel(onnxgo.New(true)), bad.Bytes())
	if err == nil || !strings.Contains(err.Error(), "onnx-go panics") {
		t.Errorf("%v", err)
	}
	if err := onnxgo.Decode(onnx.NewModel(onnxgo.New(false)), []byte{0xff}); err == nil ||
		!strings.HasPrefix(err.Error(), "onnx-go: ") {
		t.Errorf("%v", err)
	}
}

// onnx-go reads the repository's graphs as onnxload does, where it can read them: operators, their inputs and outputs in
// order, and the values of attributes.
func TestSameGraph(t *testing.T) {
	files, nodes, refused := 0, 0, 0
	check := func(name string, data []byte) {
		b := onnxgo.New(false)
		om := onnx.NewModel(b)
		if onnxgo.Decode(om, data) != nil { // it has no subgraphs, and not every type
			refused++
			return
		}
		want := read(t, data)
		if len(want.Opsets) > 1 { // it does not tell which domain an operator is of
			return
		}
		types := map[string]onnxload.Type{}
		for _, id := range want.Graph.Inits {
			w := want.Values[id]
			types[w.Name] = w.Type()
		}
		m, err := b.Model(om, onnxgo.Options{Opset: want.Opsets[""], Types: types})
		if err != nil {
			refused++ // an attribute without a type, or of one that it does not know
			return
		}
		files, nodes = files+1, nodes+len(m.Graph.Nodes)
		if got, want := outline(m), outline(want); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	for _, name := range models.Names() {
		data, err := models.Open(name)
		must.OK(t, err)
		check(name, data)
	}
	err := Archives(filepath.Join("..", "..", "estimate", "shape", "testdata", "onnx-nodes*.tar.gz"), check)
	must.OK(t, err)
	t.Logf("%d nodes in %d files agree; %d files are refused", nodes, files, refused)
	if files < 1_000 || nodes < 10_000 {
		t.Errorf("%d nodes in %d files compared, want more", nodes, files)
	}
}
