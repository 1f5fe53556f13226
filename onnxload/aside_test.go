package onnxload_test

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// What is set aside comes back as it was; from a file alone, and from no other one.
func TestSetAside(t *testing.T) {
	file := func(op string) []byte {
		return Model{Opset: 17, Graph: Graph{In: []Value{Float("x", 4)}, Out: []Value{{Name: "y"}},
			Inits: []Tensor{{Name: "w", DType: onnxload.Float32, Dims: []int64{4}, Typed: []float32{1, 2, 3, 4}}},
			Nodes: []Node{Op(op, "x w", "y").Named("/l/n")}}}.Bytes()
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	write(t, path, file("Mul"))
	m, err := onnxload.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	values, graph := m.Values, m.Graph
	again := m.SetAside()
	if again == nil || len(m.Values) > 1 || len(m.Graph.Nodes) > 0 {
		t.Fatalf("%d values and %d nodes are still there", len(m.Values), len(m.Graph.Nodes))
	}
	if err := again(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(m.Graph, graph) || !reflect.DeepEqual(m.Values, values) {
		t.Errorf("%+v with %+v, want %+v with %+v", m.Graph, m.Values, graph, values)
	}
	if got, err := m.Floats(m.Values[m.Graph.Inits[0]].Init); err != nil || len(got) != 4 || got[3] != 4 {
		t.Errorf("constants: %v, %v", got, err)
	}
	again = m.SetAside()
	write(t, path, file("Sub")) // of the same length, and perhaps at the same time
	if err := again(); err == nil {
		t.Error("another model came back")
	}
	m, err = onnxload.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	again = m.SetAside()
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)); err != nil { // as where attributes are others
		t.Fatal(err)
	}
	if err := again(); err == nil {
		t.Error("a file that was written to came back")
	}
	streamed, err := onnxload.ReadStream(bytes.NewReader(file("Mul")), onnxload.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if streamed.SetAside() != nil || len(streamed.Graph.Nodes) != 1 {
		t.Error("what cannot be read again was dropped")
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
