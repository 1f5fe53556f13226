package estimate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// largeModel is a chain of so many nodes with a weight each, and more nodes beside it.
func largeModel(nodes int, more ...onnxtest.Node) []byte {
	g := onnxtest.Graph{In: []onnxtest.Value{onnxtest.Float("x0", "batch", 4)}}
	for i := range nodes {
		g.Inits = append(g.Inits, onnxtest.Bare(fmt.Sprint("w", i), onnxload.Float32, 4))
		g.Nodes = append(g.Nodes, onnxtest.Op("Mul", fmt.Sprintf("x%d w%d", i, i), fmt.Sprint("x", i+1)))
	}
	g.Out = []onnxtest.Value{{Name: fmt.Sprint("x", nodes)}}
	for _, n := range more {
		g.Nodes, g.Out = append(g.Nodes, n), append(g.Out, onnxtest.Value{Name: n.Out[0]})
	}
	return onnxtest.Model{Opset: 17, Graph: g}.Bytes()
}

// openLarge opens a file with a largeModel of just as many nodes and weights as make one large, and more nodes.
func openLarge(t *testing.T, more ...onnxtest.Node) (m *onnxload.Model, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, largeModel(manyNodes/2, more...), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := onnxload.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m, path
}

// A large model's graph is set aside while it runs, and what is said of it is the same as where it is not. Where a size
// depends on data it stays.
func TestGraphSetAside(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates some steps of 10,000 nodes and weights")
	}
	answer := func(alone bool, more ...onnxtest.Node) (text string, aside bool) {
		m, _ := openLarge(t, more...)
		opt := Options{Alone: alone, Weigh: true, Batch: 2, Step: &Step{}}
		b, err := Bind(m, opt)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Simulate(Step{}); err != nil {
			t.Fatal(err)
		}
		aside = len(m.Graph.Nodes) == 0
		r, err := b.Simulated(opt)
		if err != nil {
			t.Fatal(err)
		}
		r.WhatIf = b.WhatIf(m, opt)
		b.SetAside(r.Simulation)
		if err := b.AddLayers(r); err != nil {
			t.Fatal(err)
		}
		r.Model.Path = ""
		said, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(said), aside
	}
	kept, aside := answer(false)
	if aside {
		t.Error("a graph that others may look at is set aside")
	}
	dropped, aside := answer(true)
	if !aside || dropped != kept {
		t.Errorf("set aside: %v; the answer is the same: %v", aside, dropped == kept)
	}
	onData := onnxtest.Op("NonZero", "x0", "nonzero")
	kept, _ = answer(false, onData)
	if dropped, aside = answer(true, onData); aside || dropped != kept {
		t.Errorf("size that depends on data: set aside: %v; the answer is the same: %v", aside, dropped == kept)
	}
}

// The largest batch of a model is found while its graph is set aside, too.
func TestLargestOfSetAside(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates some steps of 10,000 nodes and weights")
	}
	m, _ := openLarge(t)
	b, err := Bind(m, Options{Alone: true, Batch: 1, Step: &Step{}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Simulate(Step{}); err != nil {
		t.Fatal(err)
	}
	if len(m.Graph.Nodes) > 0 {
		t.Fatal("the graph is still there")
	}
	f, err := b.Largest(1 << 30)
	if err != nil || f.Batch < 1 {
		t.Errorf("%+v, %v", f, err)
	}
}

// A file that is changed while its graph is set aside is an error, whatever is asked next.
func TestGraphSetAsideChanges(t *testing.T) {
	for _, now := range [][]byte{largeModel(manyNodes/2 - 1), largeModel(manyNodes / 2)[:1000], nil} {
		const changed = "the file changed while it was used"
		m, path := openLarge(t)
		b, err := Bind(m, Options{Alone: true, Batch: 1, Step: &Step{}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := b.Simulated(Options{Alone: true, Batch: 1, Step: &Step{}})
		if err != nil {
			t.Fatal(err)
		}
		if b.setAside(); len(m.Graph.Nodes) > 0 {
			t.Fatal("the graph is still there")
		}
		if err := os.WriteFile(path, now, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := b.AddLayers(r); err == nil || !strings.Contains(err.Error(), changed) {
			t.Errorf("%d bytes now: layers: %v", len(now), err)
		}
		if _, err := b.Program(false); err == nil {
			t.Errorf("%d bytes now: a program of what is not there", len(now))
		}
		if _, err := b.Simulated(Options{Alone: true, Batch: 1, Step: &Step{}}); err == nil {
			t.Errorf("%d bytes now: a report of what is not there", len(now))
		}
	}
}
