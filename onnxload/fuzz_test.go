package onnxload_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// FuzzRead reads anything: without panic, in memory bounded by the input's size,
// the same from a file as from a stream; and what it accepts is a sound graph.
// Its seeds beyond these are in testdata/fuzz/FuzzRead.
func FuzzRead(f *testing.F) {
	f.Add(full().Bytes())
	f.Add(Calling(Fib(3), "f3").Bytes())
	f.Add(Model{Graph: chain(9)}.Bytes())
	f.Add(Model{Opset: 18, Graph: Graph{In: []Value{{Name: "x"}}, Out: []Value{{Name: "y"}}, Nodes: []Node{
		traced(Op("Neg", "x", "a"), "File \"\x1b[31m\", line 3, in forward\n    x = (\n  File \"b\", line "+
			"99999999999, in \n\n  File \""),
		traced(Op("Neg", "a", "y"), "File \"m.py\", line 3, in forward\n  File \"m.py\", line 3, in forward\n    \x00"),
	}}}.Bytes())
	for _, c := range Hostile() {
		if len(c.File) < 4096 {
			f.Add(c.File)
		}
	}
	limits := onnxload.Limits{Nodes: 10_000}
	f.Fuzz(func(t *testing.T, b []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Limits: limits})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20+128*uint64(len(b)) {
			t.Errorf("%d bytes allocated for an input of %d", n, len(b))
		}
		s, serr := onnxload.ReadStream(bytes.NewReader(b), onnxload.Options{Limits: limits})
		if (err == nil) != (serr == nil) {
			t.Fatalf("file: %v, stream: %v", err, serr)
		}
		if err != nil {
			return
		}
		if a, b := dump(m), dump(s); a != b {
			t.Fatalf("file:\n%s\nstream:\n%s", a, b)
		}
		if err := sound(m); err != nil {
			t.Fatalf("%v\n%s", err, dump(m))
		}
		for i := range m.Values {
			if x := m.Values[i].Init; x != nil {
				readAll(m, x)
				readAll(s, x)
			}
		}
	})
}

// readAll reads a tensor by whatever function is for it; errors are allowed.
func readAll(m *onnxload.Model, x *onnxload.Tensor) {
	switch {
	case x.DType.IsFloat():
		m.Floats(x)
	case x.DType != onnxload.String: // text is never read
		m.Ints(x)
	}
}

// sound checks what every user of a Model relies on: IDs in range, nothing where no value is, one producer
// a value, nodes in topological order, subgraphs that see what is before them.
func sound(m *onnxload.Model) error {
	if m.Values[onnxload.NoValue] != (onnxload.Value{}) {
		return fmt.Errorf("no value is %+v", m.Values[onnxload.NoValue])
	}
	known := make([]bool, len(m.Values))
	produced := make([]bool, len(m.Values))
	var graph func(g *onnxload.Graph) error
	graph = func(g *onnxload.Graph) error {
		var mine []onnxload.ValueID
		define := func(what string, id onnxload.ValueID) error {
			if id <= onnxload.NoValue || int(id) >= len(known) {
				return fmt.Errorf("%s is value %d of %d", what, id, len(known))
			}
			if produced[id] {
				return fmt.Errorf("%s: value %d %q has two producers", what, id, m.Values[id].Name)
			}
			known[id], produced[id] = true, true
			mine = append(mine, id)
			return nil
		}
		for _, id := range g.Inits {
			if m.Values[id].Init == nil {
				return fmt.Errorf("initializer %d has no tensor", id)
			}
			if err := define("initializer", id); err != nil {
				return err
			}
		}
		for _, id := range g.Inputs {
			if err := define("input", id); err != nil {
				return err
			}
		}
		for i := range g.Nodes {
			n := &g.Nodes[i]
			for _, id := range n.In {
				if id != onnxload.NoValue && (id < 0 || int(id) >= len(known) || !known[id]) {
					return fmt.Errorf("node %d %s reads value %d, which is not known there", i, n.Op, id)
				}
			}
			for _, a := range n.Attrs {
				if a.Type > onnxload.AttrTypeProtos {
					return fmt.Errorf("attribute %q has type %d", a.Name, a.Type)
				}
				for _, sub := range a.Graphs {
					if err := graph(sub); err != nil {
						return fmt.Errorf("%s of node %d: %w", a.Name, i, err)
					}
				}
			}
			for _, id := range n.Out {
				if id == onnxload.NoValue {
					continue
				}
				if err := define("output", id); err != nil {
					return err
				}
			}
		}
		for _, id := range g.Outputs {
			if id <= onnxload.NoValue || int(id) >= len(known) || !known[id] {
				return fmt.Errorf("graph output %d is not known", id)
			}
		}
		for _, id := range mine {
			known[id] = false // out of scope
		}
		return nil
	}
	return graph(m.Graph)
}
