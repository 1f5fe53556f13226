package torch

import (
	"math"

	"github.com/memestimate/memestimate/estimate/program"
)

// A node is one step of the backward graph. A large model has one for each of its calls, so its parts lie closely.
type node struct {
	*recorded
	leaf  *leaf   // set for AccumulateGrad, which has nothing recorded
	grad  *tensor // of output 0, while a backward pass runs
	seq   int32   // later nodes run first; AccumulateGrad before all
	refs  int32
	deps  int32 // gradients still to come, while a backward pass runs
	mark  int32 // the pass that deps belongs to
	layer int32
	call  int32 // Call.Origin of the call that made it, -1 outside of any; of AccumulateGrad without meaning
}

// recorded is what a node knows of the operator that made it.
type recorded struct {
	backward rule
	next     []edge // one for each input of the forward operator
	saved    []*storage
	packed   *packed     // what it saves in a checkpointed span; nil elsewhere
	gate     *shardGroup // whose parameters must be there before it runs; nil for none
	out      *layout     // of output 0
	more     *[]output   // the others; nil for none
	node     node
	operands operands
	dtype    program.DType // of output 0
	sliced   bool          // see unary
	temps    int16         // likewise
}

// operands are what a node knows of two of its operator's, without the padding that they have apart.
type operands struct {
	layouts [2]*layout
	dtypes  [2]program.DType
	hosts   [2]bool
}

// know has the node know an operand.
func (n *recorded) know(i int, o operand) {
	n.operands.layouts[i], n.operands.dtypes[i], n.operands.hosts[i] = o.layout, o.dtype, o.host
}

// like returns an operand that the node knows.
func (n *recorded) like(i int) operand {
	return operand{n.operands.layouts[i], n.operands.dtypes[i], n.operands.hosts[i]}
}

// An output is one of several of an operator.
type output struct {
	meta
	grad *tensor
}

// A rule turns the gradients of an operator's outputs (nil where there is none) into
// those of its inputs, nil for each that nothing wants. The gradients that it is given
// are borrowed; those that it returns are references of their own. It must not hold tensors of the forward pass, which
// are gone when it runs, but copies or what the node knows of its operands.
type rule func(r *run, n *node, g []*tensor) []*tensor

type edge struct {
	fn *node
	nr int32
}

// meta is what the gradient of an output must look like.
type meta struct {
	*layout
	dtype program.DType
}

// A leaf is a parameter that collects a gradient.
type leaf struct {
	param   *tensor
	grad    *tensor
	acc     *node // its AccumulateGrad, nil until some graph refers to it
	stepped bool  // the optimizer's states for it are there
	hooked  bool  // no parameter: see requireGrads
}

// needsGrad reports whether an operator on these inputs is recorded.
func (r *run) needsGrad(ins ...*tensor) bool {
	if !r.grad {
		return false
	}
	for _, t := range ins {
		if t != nil && t.requiresGrad {
			return true
		}
	}
	return false
}

// record makes outs the outputs of a new node over ins. saved are the tensors
// whose storage backward needs; each is kept until the node has run.
func (r *run) record(name string, outs, ins []*tensor, saved []*tensor, backward rule) *node {
	m := r.nodes.one()
	next, kept := m.next, m.saved // of its life before
	*m = recorded{backward: backward}
	n := &m.node
	*n = node{recorded: m, seq: r.seq, layer: r.layer, call: r.origin}
	r.seq++
	if n.next = next[:0]; cap(next) < len(ins) {
		n.next = r.edges.some(len(ins))[:0]
	}
	for _, t := range ins {
		e := edge{}
		if t != nil && t.requiresGrad {
			e = r.edgeTo(t)
		}
		n.next = append(n.next, e)
	}
	if n.saved = kept[:0]; cap(kept) < len(saved) {
		n.saved = r.saves.some(len(saved))[:0]
	}
	if r.frame != nil || r.recomputed != nil {
		r.pack(n, outs, saved)
	} else {
		for _, t := range saved {
			n.save(t)
		}
		if r.opts.Tensors {
			r.keeps(name, saved)
		}
	}
	if len(outs) > 1 {
		more := make([]output, len(outs)-1)
		n.more = &more
	}
	for i, t := range outs {
		if t == nil {
			continue
		}
		if i == 0 {
			n.out, n.dtype = t.layout, t.dtype
		} else {
			(*n.more)[i-1].meta = meta{t.layout, t.dtype}
		}
		if !t.dtype.IsFloat() {
			continue // indices and masks have no gradient
		}
		if t.fn != nil { // written in place
			r.dropNode(t.fn)
		}
		t.requiresGrad, t.fn, t.nr, t.leaf = true, n, int32(i), nil
		n.refs++
	}
	return n
}

// edgeTo returns where t's gradient goes, and takes a reference on it.
func (r *run) edgeTo(t *tensor) edge {
	fn, nr := t.fn, t.nr
	if fn == nil {
		l := t.leaf
		if l.acc == nil {
			l.acc = r.accs.one()
		}
		if fn, nr = l.acc, 0; fn.refs == 0 {
			*fn = node{leaf: l, seq: math.MaxInt32, layer: r.layer}
		}
	}
	fn.refs++
	return edge{fn, nr}
}

// want returns what the gradient of an output must look like.
func (n *node) want(nr int32) meta {
	switch {
	case n.leaf != nil:
		return meta{n.leaf.param.layout, n.leaf.param.dtype}
	case nr == 0:
		return meta{n.out, n.dtype}
	}
	return (*n.more)[nr-1].meta
}

// gradient returns where the gradient of an output collects.
func (n *node) gradient(nr int32) **tensor {
	if nr == 0 {
		return &n.grad
	}
	return &(*n.more)[nr-1].grad
}

// save keeps t's storage until n has run.
func (n *node) save(t *tensor) {
	if t != nil && !t.host {
		t.st.refs++
		n.saved = append(n.saved, t.st)
	}
}

// dropNode drops a reference to a node; the last frees what it saved and the
// nodes behind it. A worklist, because graphs are as deep as models are long.
func (r *run) dropNode(n *node) {
	n.refs--
	if n.refs > 0 {
		return
	}
	work := append(r.work[:0], n)
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		if n.leaf != nil {
			continue
		}
		r.releaseSaved(n)
		for _, e := range n.next {
			if e.fn == nil {
				continue
			}
			if e.fn.refs--; e.fn.refs == 0 {
				work = append(work, e.fn)
			}
		}
		n.letGo()
		r.freed.nodes = append(r.freed.nodes, n.recorded)
	}
	r.work = work
}

// letGo has a node that is done forget those behind it: what is left of a graph would keep all of it in memory.
func (n *node) letGo() {
	clear(n.next)
	n.next, n.backward = n.next[:0], nil
}

func (r *run) releaseSaved(n *node) {
	for _, s := range n.saved {
		r.drop(s)
	}
	n.saved = n.saved[:0]
	if n.packed != nil {
		r.leave(n)
	}
}

// wants reports whether input i of n's operator has somewhere to send a gradient.
func (n *node) wants(i int) bool { return i < len(n.next) && n.next[i].fn != nil }
