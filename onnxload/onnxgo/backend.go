// Package onnxgo lets Go programs that load a model with github.com/owulveryck/onnx-go have it estimated: a Backend
// records what onnx-go decodes, for itself or for the backend that runs the model, and Model returns it as onnxload
// would read it.
//
// Nothing else of this module imports onnx-go: its generated messages register themselves as package "onnx" of the
// process's protobuf registry, where a second package of that name is a panic.
package onnxgo

import (
	"fmt"
	"math"

	onnx "github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"
	"gonum.org/v1/gonum/graph/simple"
	"gorgonia.org/tensor"
)

// A Backend records the one model that onnx-go decodes into it.
//
// onnx-go v0.5.0 tells a backend neither operator sets nor domains, names of nodes, symbolic dimensions and declared
// types, and does not decode subgraphs. Reading the file with onnxload has none of these limits.
type Backend struct {
	onnx.Backend // receives everything that is recorded

	nodes   []graph.Node
	byID    map[int64]graph.Node
	ops     []operation
	pending []graph.WeightedEdge // since the last operation
}

type operation struct {
	name  string
	attrs map[string]any
	in    []graph.Node
	out   []graph.Node
}

// New returns a Backend without a backend behind it. With tensors, onnx-go decodes the weights, which tells their
// shapes and the small constants that shapes depend on: it decodes only float32, float64, int32, int64 and bool, and
// allocates every tensor that the file declares, inputs and intermediate values included. Without, Options must have
// the types of weights.
func New(tensors bool) *Backend {
	return Tee(&store{simple.NewWeightedDirectedGraph(0, math.Inf(1)), tensors})
}

// Tee returns a Backend that passes everything on to dst, which may run the model.
func Tee(dst onnx.Backend) *Backend { return &Backend{Backend: dst, byID: map[int64]graph.Node{}} }

// Decode has m decode an ONNX file. Unlike m.UnmarshalBinary it returns an error where onnx-go or a backend panics.
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

// AddNode adds a value to the graph; onnx-go calls values nodes.
func (b *Backend) AddNode(n graph.Node) {
	b.Backend.AddNode(n)
	b.byID[n.ID()] = n
	b.nodes = append(b.nodes, n)
}

// SetWeightedEdge adds an edge from an output to an input, whose index is the edge's weight. Unlike a graph of gonum, a
// Backend keeps both edges of an operation that reads one value twice.
func (b *Backend) SetWeightedEdge(e graph.WeightedEdge) {
	b.Backend.SetWeightedEdge(e)
	b.pending = append(b.pending, e)
}

// ApplyOperation records an operation on the values that it produces. Its inputs are the edges that came since the last
// one: once for each output, with weights from 0 on.
func (b *Backend) ApplyOperation(o onnx.Operation, outputs ...graph.Node) error {
	op := operation{name: o.Name, attrs: o.Attributes, out: append([]graph.Node(nil), outputs...)}
	for i, e := range b.pending {
		if int(e.Weight()) != i {
			break
		}
		op.in = append(op.in, e.To())
	}
	b.pending = b.pending[:0]
	b.ops = append(b.ops, op)
	return b.Backend.ApplyOperation(o, outputs...)
}

// A store is the graph behind a Backend that has no other.
type store struct {
	*simple.WeightedDirectedGraph
	tensors bool
}

// NewNode returns a value that is not in the graph yet.
func (s *store) NewNode() graph.Node {
	v := value{id: s.WeightedDirectedGraph.NewNode().ID()}
	if s.tensors {
		return &tensorValue{value: v}
	}
	return &v
}

// ApplyOperation has nothing to run.
func (s *store) ApplyOperation(onnx.Operation, ...graph.Node) error { return nil }

type value struct {
	id   int64
	name string
}

func (v *value) ID() int64        { return v.id }
func (v *value) SetName(s string) { v.name = s }
func (v *value) GetName() string  { return v.name }

type tensorValue struct {
	value
	t tensor.Tensor
}

func (v *tensorValue) SetTensor(t tensor.Tensor) error { v.t = t; return nil }
func (v *tensorValue) GetTensor() tensor.Tensor        { return v.t }
