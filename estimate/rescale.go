package estimate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// mostAlone is how many expanded tensors without a batch are tried out, each by an inference of its own.
const mostAlone = 8

// rescaling is an export whose batch is fixed, on its way to another.
type rescaling struct {
	m     *onnxload.Model
	from  *shape.Result // at the batch that was exported
	fixed int64
	batch int64
	data  []bool // by value: it follows from the inputs

	reshaped, expanded []int // nodes whose constant shape begins with the batch
	alone              []int // those of expanded that no input reaches
}

// rescale returns a model for another batch than the one that its export fixed, and notes what was rewritten. The batch
// leads every input, and a tensor's elements lie sample after sample: the constant shape of a Reshape has it in front
// too, alone or as rows of each sample. What could mean something else is an error.
func rescale(m *onnxload.Model, opt *Options) (*onnxload.Model, error) {
	fixed := leadingSize(m)
	if opt.Batch <= 0 || fixed <= 0 || fixed == opt.Batch || len(opt.Inputs) > 0 {
		return m, nil
	}
	from, err := shape.Infer(m, shape.Options{Dims: opt.Dims})
	if err != nil {
		return nil, err
	}
	r := &rescaling{m: m, from: from, fixed: fixed, batch: opt.Batch}
	out, err := r.run(opt)
	if err != nil {
		return nil, fmt.Errorf("%w: the export's is fixed at %d: %w", ErrNoBatch, fixed, err)
	}
	out.Notes = append(slices.Clone(out.Notes), fmt.Sprintf("the export's batch is fixed at %d: its inputs and %s were "+
		"rewritten for %d; one with dynamic_shapes says itself what follows the batch", fixed,
		plural(len(r.reshaped)+len(r.expanded), "constant shape"), opt.Batch))
	return out, nil
}

// leadingSize returns the size with which every input begins, 0 where they differ or any dimension is a symbol: the batch
// may be that one.
func leadingSize(m *onnxload.Model) (size int64) {
	for _, id := range m.Graph.Inputs {
		t := m.Values[id].Type()
		if t.Kind != onnxload.TensorType || len(t.Dims) == 0 || size > 0 && t.Dims[0].Size != size ||
			slices.ContainsFunc(t.Dims, func(d onnxload.Dim) bool { return !d.Known }) {
			return 0
		}
		size = t.Dims[0].Size
	}
	return size
}

func (r *rescaling) run(opt *Options) (*onnxload.Model, error) {
	if len(r.from.Unknown) > 0 {
		return nil, fmt.Errorf("operator %q is not known", r.from.Unknown[0].Op)
	}
	if err := r.find(); err != nil {
		return nil, err
	}
	out := r.written(-1)
	to, err := shape.Infer(out, shape.Options{Dims: opt.Dims})
	if err != nil {
		return nil, err
	}
	if err := r.check(to); err != nil {
		return nil, err
	}
	if len(r.alone) > mostAlone {
		return nil, fmt.Errorf("%d tensors without a batch are expanded to %d", len(r.alone), r.fixed)
	}
	for _, i := range r.alone { // whether it is the batch shows where it meets what has one
		if _, err := shape.Infer(r.written(i), shape.Options{Dims: opt.Dims}); err == nil {
			return nil, fmt.Errorf("node %d (Expand) makes %d of a tensor without a batch, which may be the batch or not", i,
				r.fixed)
		}
	}
	return out, nil
}

// find looks for the nodes with a constant shape that begins with the batch.
func (r *rescaling) find() error {
	r.data = make([]bool, len(r.m.Values))
	for _, id := range r.m.Graph.Inputs {
		r.data[id] = true
	}
	for i := range r.m.Graph.Nodes {
		n := &r.m.Graph.Nodes[i]
		if slices.ContainsFunc(n.Attrs, func(a onnxload.Attr) bool { return len(a.Graphs) > 0 }) {
			return fmt.Errorf("node %d (%s) has a graph of its own", i, n.Op)
		}
		if slices.ContainsFunc(n.In, func(id onnxload.ValueID) bool { return r.data[id] }) {
			for _, id := range n.Out {
				r.data[id] = id != onnxload.NoValue
			}
		}
		if n.Domain != "" || n.Op != "Reshape" && n.Op != "Expand" || r.data[n.Input(1)] {
			continue
		}
		to := r.target(n)
		if len(to) == 0 {
			continue
		}
		if to[0]/r.fixed > math.MaxInt64/r.batch {
			return fmt.Errorf("node %d (%s) has more than 2^63 rows at that batch", i, n.Op)
		}
		given, _ := r.from.Type(n.Input(0)).Shape.Ints()
		switch {
		case n.Op == "Reshape" && r.data[n.Input(0)] && len(given) > 0 && r.whole(given[0]) && r.whole(to[0]):
			r.reshaped = append(r.reshaped, i)
		case n.Op == "Expand" && r.fixed > 1 && to[0] == r.fixed:
			r.expanded = append(r.expanded, i)
			if len(given) < len(to) || given[0] != r.fixed || !r.data[n.Input(0)] {
				r.alone = append(r.alone, i)
			}
		}
	}
	return nil
}

// target returns the constant shape of a Reshape or an Expand.
func (r *rescaling) target(n *onnxload.Node) []int64 {
	c := r.from.Value(n.Input(1))
	if c == nil {
		return nil
	}
	to, known := shape.Shape{Ranked: true, Dims: c.Ints}.Ints()
	if !known {
		return nil
	}
	return to
}

// whole reports whether a leading dimension is of whole samples: the batch, or so many rows of each sample. Of a batch
// of one every dimension would be.
func (r *rescaling) whole(size int64) bool {
	return size == r.fixed || r.fixed > 1 && size > 0 && size%r.fixed == 0
}

// written returns the model with another batch, but for one of its nodes.
func (r *rescaling) written(but int) *onnxload.Model {
	out, g := *r.m, *r.m.Graph
	out.Graph, out.Values = &g, slices.Clone(r.m.Values)
	g.Nodes, g.Inits = slices.Clone(g.Nodes), slices.Clone(g.Inits)
	for id := range out.Values {
		if r.data[id] { // what the file declares is of the other batch
			out.Values[id].Declared = nil
		}
	}
	for _, id := range g.Inputs {
		t := r.m.Values[id].Type()
		t.Dims = slices.Clone(t.Dims)
		t.Dims[0].Size = r.batch
		out.Values[id].Declared = &t
	}
	replaced := map[onnxload.ValueID]bool{}
	for _, i := range slices.Concat(r.reshaped, r.expanded) {
		if i == but {
			continue
		}
		replaced[g.Nodes[i].In[1]] = true
		to := slices.Clone(r.target(&g.Nodes[i]))
		to[0] = to[0] / r.fixed * r.batch
		id := onnxload.ValueID(len(out.Values))
		name := out.NameOf(g.Nodes[i].In[1]) // which says how it was exported
		out.Values = append(out.Values, onnxload.Value{Name: name, Init: onnxload.IntTensor(name, to)})
		g.Inits = append(g.Inits, id)
		g.Nodes[i].In = slices.Clone(g.Nodes[i].In)
		g.Nodes[i].In[1] = id
	}
	for i := range g.Nodes {
		for _, id := range g.Nodes[i].In {
			delete(replaced, id)
		}
	}
	g.Inits = slices.DeleteFunc(g.Inits, func(id onnxload.ValueID) bool { return replaced[id] }) // nothing reads it
	return &out
}

// check holds the rewritten model to what was assumed: what is reshaped has the batch in front and nowhere else, and
// so have the results of the model that had it.
func (r *rescaling) check(to *shape.Result) error {
	follows := func(id onnxload.ValueID) bool {
		old, known := r.from.Type(id).Shape.Ints()
		now, known2 := to.Type(id).Shape.Ints()
		return known && known2 && len(old) > 0 && len(old) == len(now) && now[0] == old[0]/r.fixed*r.batch &&
			slices.Equal(old[1:], now[1:])
	}
	for _, i := range r.reshaped {
		if !follows(r.m.Graph.Nodes[i].Input(0)) {
			return fmt.Errorf("node %d (Reshape) is given a tensor that does not follow the batch", i)
		}
	}
	for _, id := range r.m.Graph.Outputs {
		if t, ok := r.from.Type(id).Shape.Ints(); ok && len(t) > 0 && r.data[id] && r.whole(t[0]) && !follows(id) {
			return errors.New("a result of the model does not follow the batch")
		}
	}
	return nil
}
