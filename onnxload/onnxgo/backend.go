// Package onnxgo joins onnxload with github.com/owulveryck/onnx-go, in both directions.
//
// A Go program that loads its model with onnx-go can have it estimated: it
// passes a Backend to onnx.NewModel, alone or around the backend that runs the
// model (Tee), and asks it for an onnxload.Model afterwards.
//
// And onnx-go checks onnxload: Check lets it decode a model as well, which
// onnxload has read, and compares the two node by node.
//
// Nothing else of this module imports onnx-go: its generated messages register
// themselves as package "onnx" of the process's protobuf registry, where a
// second package of that name is a panic.
package onnxgo

import (
	"fmt"

	onnx "github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/iterator"
	"gorgonia.org/tensor"
)

// A Backend records the model that onnx-go decodes into it. Its zero value is
// ready, and good for one model.
//
// What onnx-go v0.5.0 does not hand to a backend, a Backend cannot tell: the
// operator sets, domains and names of nodes, symbolic dimensions, declared
// types. Models with subgraphs it does not decode at all. Reading the file with
// onnxload has none of these limits.
type Backend struct {
	// Tensors has onnx-go decode the weights, which tells their shapes and the
	// small constants that shapes depend on. It decodes only float32, float64, int32,
	// int64 and bool, and it allocates every tensor that the file declares, inputs
	// and intermediate values included. Without it, Model needs the types of
	// weights in its Options. It has no effect on a Tee.
	Tensors bool

	dst     onnx.Backend // of a Tee
	nodes   []graph.Node
	byID    map[int64]graph.Node
	ops     []operation
	pending []edge // since the last operation
	edges   []edge // all, for the questions of graph.Directed
}

type operation struct {
	name  string
	attrs map[string]any
	in    []graph.Node
	out   []graph.Node
}

// Tee returns a Backend that passes everything on to dst, which may run the
// model, and records it.
func Tee(dst onnx.Backend) *Backend { return &Backend{dst: dst} }

// Decode has m decode an ONNX file. Unlike m.UnmarshalBinary it gives an error where
// onnx-go or a backend panics.
func Decode(m *onnx.Model, data []byte) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("onnx-go panics: %v", r)
		}
	}()
	if err := m.UnmarshalBinary(data); err != nil {
		return fmt.Errorf("onnx-go: %w", err)
	}
	return nil
}

// A node is a value of the graph, which onnx-go calls a node.
type node struct {
	id   int64
	name string
}

func (n *node) ID() int64        { return n.id }
func (n *node) SetName(s string) { n.name = s }
func (n *node) GetName() string  { return n.name }

type tensorNode struct {
	node
	t tensor.Tensor
}

func (n *tensorNode) SetTensor(t tensor.Tensor) error { n.t = t; return nil }
func (n *tensorNode) GetTensor() tensor.Tensor        { return n.t }

// An edge leads from an output to an input, as onnx-go has them.
type edge struct {
	from, to graph.Node
	weight   float64 // the input's index
}

func (e edge) From() graph.Node         { return e.from }
func (e edge) To() graph.Node           { return e.to }
func (e edge) Weight() float64          { return e.weight }
func (e edge) ReversedEdge() graph.Edge { return edge{e.to, e.from, e.weight} }

// NewNode returns a new value that is not in the graph yet.
func (b *Backend) NewNode() graph.Node {
	if b.dst != nil {
		return b.dst.NewNode()
	}
	n := node{id: int64(len(b.nodes))}
	if b.Tensors {
		return &tensorNode{node: n}
	}
	return &n
}

// AddNode adds a value to the graph.
func (b *Backend) AddNode(n graph.Node) {
	if b.dst != nil {
		b.dst.AddNode(n)
	}
	if b.byID == nil {
		b.byID = map[int64]graph.Node{}
	}
	b.byID[n.ID()] = n
	b.nodes = append(b.nodes, n)
}

// NewWeightedEdge returns an edge that is not in the graph yet.
func (b *Backend) NewWeightedEdge(from, to graph.Node, weight float64) graph.WeightedEdge {
	if b.dst != nil {
		return b.dst.NewWeightedEdge(from, to, weight)
	}
	return edge{from, to, weight}
}

// SetWeightedEdge adds an edge to the graph. Unlike a graph of gonum, a Backend
// keeps both edges of a node that reads one value twice.
func (b *Backend) SetWeightedEdge(e graph.WeightedEdge) {
	if b.dst != nil {
		b.dst.SetWeightedEdge(e)
	}
	x := edge{e.From(), e.To(), e.Weight()}
	b.pending = append(b.pending, x)
	b.edges = append(b.edges, x)
}

// ApplyOperation records an operation on the values that it produces. Its
// inputs are the edges that came since the last one.
func (b *Backend) ApplyOperation(o onnx.Operation, outputs ...graph.Node) error {
	op := operation{name: o.Name, attrs: o.Attributes, out: append([]graph.Node(nil), outputs...)}
	// The edges come once for each output, in order, weights from 0 on.
	for i, e := range b.pending {
		if int(e.weight) != i || i > 0 && e.weight == 0 {
			break
		}
		op.in = append(op.in, e.to)
	}
	b.pending = b.pending[:0]
	b.ops = append(b.ops, op)
	if b.dst != nil {
		return b.dst.ApplyOperation(o, outputs...)
	}
	return nil
}

// Node returns the value with that ID, or nil.
func (b *Backend) Node(id int64) graph.Node {
	if b.dst != nil {
		return b.dst.Node(id)
	}
	return b.byID[id]
}

// Nodes returns all values.
func (b *Backend) Nodes() graph.Nodes {
	if b.dst != nil {
		return b.dst.Nodes()
	}
	return iterator.NewOrderedNodes(b.nodes)
}

// From returns the values that an edge leads to from this one.
func (b *Backend) From(id int64) graph.Nodes {
	if b.dst != nil {
		return b.dst.From(id)
	}
	return b.neighbours(func(e edge) (graph.Node, bool) { return e.to, e.from.ID() == id })
}

// To returns the values from which an edge leads to this one.
func (b *Backend) To(id int64) graph.Nodes {
	if b.dst != nil {
		return b.dst.To(id)
	}
	return b.neighbours(func(e edge) (graph.Node, bool) { return e.from, e.to.ID() == id })
}

func (b *Backend) neighbours(pick func(edge) (graph.Node, bool)) graph.Nodes {
	var list []graph.Node
	seen := map[int64]bool{}
	for _, e := range b.edges {
		if n, ok := pick(e); ok && !seen[n.ID()] {
			seen[n.ID()] = true
			list = append(list, n)
		}
	}
	return iterator.NewOrderedNodes(list)
}

// Edge returns the first edge from u to v, or nil.
func (b *Backend) Edge(u, v int64) graph.Edge {
	if b.dst != nil {
		return b.dst.Edge(u, v)
	}
	for _, e := range b.edges {
		if e.from.ID() == u && e.to.ID() == v {
			return e
		}
	}
	return nil
}

// HasEdgeFromTo reports whether an edge leads from u to v.
func (b *Backend) HasEdgeFromTo(u, v int64) bool {
	if b.dst != nil {
		return b.dst.HasEdgeFromTo(u, v)
	}
	return b.Edge(u, v) != nil
}

// HasEdgeBetween reports whether an edge joins x and y.
func (b *Backend) HasEdgeBetween(x, y int64) bool {
	if b.dst != nil {
		return b.dst.HasEdgeBetween(x, y)
	}
	return b.Edge(x, y) != nil || b.Edge(y, x) != nil
}
