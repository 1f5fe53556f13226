// Package shape infers the type and shape of every value of an ONNX model.
//
// The inputs' dimensions get their sizes first (see Options), then every node's row of the operator table is applied in
// order, and constants are evaluated on the way. What has no size is unknown, and what data decides has bounds.
package shape

import (
	"cmp"
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// Limits of one inference. They bound memory and time by something other than
// what a file asks for.
const (
	// maxConst is the largest constant, in elements, that is read or
	// computed: 64 KiB of int64, as much as onnxload reads of a payload. Shape arithmetic
	// needs a few elements; the masks and position tables of transformers
	// are larger, and no shape depends on their values.
	maxConst = 1 << 13

	// maxRank is the highest rank of a tensor. PyTorch and ONNX Runtime stop at 64 and below.
	maxRank = 64

	// maxDepth is how deep the bodies of If, Loop and Scan may nest.
	maxDepth = 32
)

// Options say what is known beyond the file.
type Options struct {
	Batch  int64              // size of the inputs' leading symbolic dimension; 0 leaves it
	Dims   map[string]int64   // sizes of symbols, by name
	Inputs map[string][]int64 // shapes of inputs, by name
}

// Infer finds the type of every value of m. An operator that the table does not
// know is no error: it is listed in the result. A node that contradicts its operator's
// rules is a *NodeError; options that do not fit the model are a *BindError.
func Infer(m *onnxload.Model, opt Options) (*Result, error) {
	f := newInferer(m, opt)
	if v := m.Opsets[""]; v > onnxload.LatestOpset {
		f.notes.add(fmt.Sprintf("opset %d is newer than %d, whose rules are applied", v, onnxload.LatestOpset))
	}
	if err := f.bind(); err != nil {
		return nil, err
	}
	if err := f.graph(m.Graph); err != nil {
		return nil, err
	}
	f.stored(m.Graph)
	return f.result(), nil
}

// A NodeError says which node breaks its operator's rules, and how.
type NodeError struct {
	Index int    // in its graph
	Name  string // may be empty
	Op    string
	Err   error
}

// Error names the node by its place, its name and its operator, and says what is wrong.
func (e *NodeError) Error() string {
	if e.Name == "" {
		return fmt.Sprintf("node %d (%s): %v", e.Index, e.Op, e.Err)
	}
	return fmt.Sprintf("node %d %q (%s): %v", e.Index, e.Name, e.Op, e.Err)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// An inferer is the state of one inference. All graphs of a model share it, since
// they share the table of values.
type inferer struct {
	m      *onnxload.Model
	opt    Options
	ops    table
	rows   [64]knownRow // of operators that were found
	types  []*Type      // by ValueID, shared by values of one type and not to be changed; nil: nothing is known
	consts []*Const     // by ValueID; nil: not known, or an initializer that nobody read yet

	sizes  map[string]binding        // of symbols
	params map[string]Dim            // dim_param texts, by what they come to
	open   []Unbound                 // dimensions of inputs without a size
	masks  map[onnxload.ValueID]bool // integers that were booleans: their sum is how many are set
	notes  notes

	unknown        map[opKey]int // operators without a row, by how many nodes have them
	contradictions []Contradiction

	elems     int // of all values computed so far
	computing int // values being computed that waited for it

	recent [256]*Type // by their hashes: most values have the type of another one
	room   []Type     // where the next types go

	depth  int                                // of bodies around the graph being inferred
	visits int                                // nodes inferred, again and again in bodies of loops
	bodies map[*onnxload.Node]*onnxload.Graph // that nodes run
}

func newInferer(m *onnxload.Model, opt Options) *inferer {
	return &inferer{
		m:       m,
		opt:     opt,
		ops:     opTable(),
		types:   make([]*Type, len(m.Values)),
		consts:  make([]*Const, len(m.Values)),
		unknown: map[opKey]int{},
	}
}

// graph infers the values of a graph whose inputs have their types already.
func (f *inferer) graph(g *onnxload.Graph) error {
	for _, id := range g.Inits {
		if t := f.m.Values[id].Init; t != nil {
			f.setTensor(id, t.DType, t.Dims)
		}
	}
	c := &call{inf: f}
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if err := f.node(c, n); err != nil {
			return &NodeError{i, n.Name, n.Op, err}
		}
	}
	return nil
}

// stored types the tensors that the file holds in bodies that were not inferred: those of operators without a row, and
// branches that are not taken.
func (f *inferer) stored(g *onnxload.Graph) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if v := n.Attr("value"); n.Op == "Constant" && v != nil && len(v.Tensors) == 1 && n.Output(0) != onnxload.NoValue &&
			f.types[n.Output(0)] == nil {
			f.setTensor(n.Output(0), v.Tensors[0].DType, v.Tensors[0].Dims)
		}
		for j := range n.Attrs {
			for _, body := range n.Attrs[j].Graphs {
				for _, id := range body.Inits {
					if t := f.m.Values[id].Init; t != nil && f.types[id] == nil {
						f.setTensor(id, t.DType, t.Dims)
					}
				}
				f.stored(body)
			}
		}
	}
}

// A knownRow is the row of an operator at a version; nil when the place is free.
type knownRow struct {
	domain, name string
	version      int64
	row          *op
}

// row returns the row in force for a node, or nil. A model has few operators: most are found without the table.
func (f *inferer) row(n *onnxload.Node) *op {
	if n.Op == "" {
		return nil
	}
	k := &f.rows[(uint(len(n.Op))*7+uint(n.Op[0])*31+uint(n.Op[len(n.Op)-1]))%uint(len(f.rows))]
	if k.row == nil || k.version != n.Version || k.name != n.Op || k.domain != n.Domain {
		*k = knownRow{n.Domain, n.Op, n.Version, f.ops.find(n.Domain, n.Op, n.Version)}
	}
	return k.row
}

// node applies its row to one node. c is scratch.
func (f *inferer) node(c *call, n *onnxload.Node) error {
	f.visits++
	c.reset(n)
	row := f.row(n)
	if row == nil {
		f.unknown[opKey{n.Domain, n.Op}]++
	} else {
		err := c.follow(row.infer)
		if err = cmp.Or(c.misfit, err); err != nil {
			return err
		}
		if row.eval != nil && c.worthEval() && !f.postpone(c) {
			if err := c.follow(row.eval); err != nil {
				return err
			}
		}
	}
	for i, id := range n.Out {
		if id == onnxload.NoValue {
			continue
		}
		if err := checkType(c.outs[i]); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
		f.setType(id, f.settle(id, c.outs[i]))
		v := c.results[i]
		if v != nil && (v.Len() > maxConst || !f.afford(v.Len())) {
			v = nil
		}
		if f.consts[id] != v { // nil as well: a body may be inferred again
			f.consts[id] = v
		}
	}
	return nil
}

// checkType refuses what no tensor can be: whatever a rule computed, a result
// with it is not passed on.
func checkType(t Type) error {
	if len(t.Shape.Dims) > maxRank {
		return fmt.Errorf("rank %d is above %d", len(t.Shape.Dims), maxRank)
	}
	for i, d := range t.Shape.Dims {
		if n, ok := d.Int(); ok {
			if n < 0 {
				return fmt.Errorf("dimension %d is %d", i, n)
			}
		} else if d.Overflowed() {
			return fmt.Errorf("dimension %d does not fit 64 bits", i)
		}
	}
	if t.Of != nil {
		return checkType(*t.Of)
	}
	return nil
}
