package eager

import (
	"container/heap"
	"fmt"
	"math"
	"slices"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// A node is one step of the backward graph.
type node struct {
	name  string // as PyTorch prints it, without "Backward0"
	seq   int64  // later nodes run first; AccumulateGrad before all
	next  []edge // one for each input of the forward operator
	saved []*storage
	outs  []meta // of each forward output: what its gradient must look like
	layer int32
	call  int32 // Call.Node of the call that made it, -1 outside of any
	refs  int32
	leaf  *leaf // set for AccumulateGrad

	backward rule

	deps  int32     // gradients still to come, while a backward pass runs
	mark  int32     // the pass that deps belongs to
	grads []*tensor // those that came
}

// A rule turns the gradients of an operator's outputs (nil where there is none) into
// those of its inputs, nil for each that nothing wants. The gradients that it is given
// are borrowed; those that it returns are references of their own.
type rule func(r *run, n *node, g []*tensor) []*tensor

type edge struct {
	fn *node
	nr int32
}

type meta struct {
	shape []int64
	dtype onnxload.DType
}

// A leaf is a parameter that collects a gradient.
type leaf struct {
	param *tensor
	grad  *tensor
	acc   *node     // its AccumulateGrad, while some graph refers to it
	state []*tensor // what the optimizer keeps for it
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
	n := r.nodes.one()
	*n = node{name: name, seq: r.seq, layer: r.layer, call: r.at, backward: backward}
	r.seq++
	n.next = r.edges.some(len(ins))
	for i, t := range ins {
		if t == nil || !t.requiresGrad {
			continue
		}
		n.next[i] = r.edgeTo(t)
	}
	if len(saved) > 0 {
		n.saved = r.saves.some(len(saved))[:0]
	}
	for _, t := range saved {
		n.save(t)
	}
	n.outs = r.metas.some(len(outs))
	for i, t := range outs {
		if t == nil {
			continue
		}
		n.outs[i] = meta{t.shape, t.dtype}
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
		if t.leaf.acc == nil {
			acc := r.nodes.one()
			*acc = node{name: "AccumulateGrad", seq: math.MaxInt64, leaf: t.leaf, outs: r.metas.some(1), layer: r.layer}
			acc.outs[0] = meta{t.shape, t.dtype}
			t.leaf.acc = acc
		}
		fn, nr = t.leaf.acc, 0
	}
	fn.refs++
	return edge{fn, nr}
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
	work := []*node{n}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		r.releaseSaved(n)
		if n.leaf != nil {
			n.leaf.acc = nil
		}
		for _, e := range n.next {
			if e.fn == nil {
				continue
			}
			if e.fn.refs--; e.fn.refs == 0 {
				work = append(work, e.fn)
			}
		}
		n.next = nil
	}
}

func (r *run) releaseSaved(n *node) {
	for _, s := range n.saved {
		r.drop(s)
	}
	n.saved = nil
}

// wants reports whether input i of n's operator has somewhere to send a gradient.
func (n *node) wants(i int) bool { return i < len(n.next) && n.next[i].fn != nil }

// readyQueue orders nodes that have all their gradients: the last recorded
// first, AccumulateGrad before all (torch/csrc/autograd/engine.cpp, CompareNodeTaskTime).
type readyQueue []*node

func (q readyQueue) Len() int           { return len(q) }
func (q readyQueue) Less(i, j int) bool { return q[i].seq > q[j].seq }
func (q readyQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *readyQueue) Push(x any)        { *q = append(*q, x.(*node)) }
func (q *readyQueue) Pop() any {
	old := *q
	x := old[len(old)-1]
	*q = old[:len(old)-1]
	return x
}

// runBackward is loss.backward(): it sends a gradient of ones through the graph
// (Engine::execute and Engine::evaluate_function).
func (r *run) runBackward(loss *tensor) {
	if loss.fn == nil {
		return
	}
	r.grad, r.back = false, true
	ones := r.emptyLike(loss, loss.dtype) // torch.ones_like(loss), kept by the caller to the end
	r.backwardFrom(loss, ones)
	r.release(ones)
}

// backwardFrom is y.backward(gradient): the gradient stays the caller's.
func (r *run) backwardFrom(y, gradient *tensor) {
	r.grad, r.back = false, true
	outer := r.layer
	root := y.fn
	r.passes++
	countDeps(root, r.passes)
	root.grads = r.lists.some(len(root.outs))
	root.grads[y.nr] = gradient.retain()
	queue := readyQueue{root}
	for len(queue) > 0 {
		n := heap.Pop(&queue).(*node)
		r.evaluate(n, &queue)
		r.recycle(false)
	}
	r.layer = outer
	r.grad, r.back = true, false
}

// countDeps counts, for every node reachable from root, the edges that lead to it.
func countDeps(root *node, pass int32) {
	root.mark, root.deps = pass, 0
	work := []*node{root}
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range n.next {
			if e.fn == nil {
				continue
			}
			if e.fn.mark != pass {
				e.fn.mark, e.fn.deps = pass, 0
				work = append(work, e.fn)
			}
			e.fn.deps++
		}
	}
}

// evaluate runs one node: its gradients and saved tensors are alive while it does,
// then the gradients go, then what it saved, then the results are handed on.
func (r *run) evaluate(n *node, queue *readyQueue) {
	r.layer = n.layer
	grads := n.grads
	n.grads = nil
	if n.leaf != nil {
		r.accumulateGrad(n, grads)
		return
	}
	var outs []*tensor
	if slices.ContainsFunc(grads, func(g *tensor) bool { return g != nil }) {
		outs = n.backward(r, n, grads)
	} // else nothing arrived, and nothing goes on: an undefined gradient
	for i, g := range outs {
		if g != nil && n.wants(i) {
			outs[i] = r.validate(g, n.next[i].fn.outs[n.next[i].nr], n.name)
		}
	}
	for _, g := range grads {
		r.release(g)
	}
	r.releaseSaved(n)
	for i, e := range n.next {
		if e.fn == nil {
			continue
		}
		to := e.fn
		if to.grads == nil {
			to.grads = r.lists.some(len(to.outs))
		}
		if i < len(outs) && outs[i] != nil {
			r.accumulate(to, e.nr, outs[i])
			outs[i] = nil
		}
		if to.deps--; to.deps == 0 {
			heap.Push(queue, to)
		}
	}
	for _, g := range outs { // gradients that nothing wanted
		r.release(g)
	}
}

// validate is validate_outputs: a gradient of a broadcast input is summed to its
// shape, and one of another element type is cast. from is the node that made it.
func (r *run) validate(g *tensor, want meta, from string) *tensor {
	if !sameShape(g.shape, want.shape) {
		if !broadcasts(want.shape, g.shape) { // an argument that its operator does not take, and no row refused
			if r.err == nil {
				r.err = fmt.Errorf("a gradient of shape %v from %s for an argument of %v", g.shape, from, want.shape)
			}
			t := r.empty(want.dtype, want.shape...)
			r.release(g)
			return t
		}
		s := r.sumTo(g, want.shape)
		r.release(g)
		g = s
	}
	if g.dtype != want.dtype {
		c := r.emptyLike(g, want.dtype)
		r.release(g)
		g = c
	}
	return g
}

// accumulate adds a gradient to what a node has collected (InputBuffer::add): in
// place when the buffer alone holds a dense tensor, otherwise into a new one. A view is never
// held alone: it keeps the tensor that it is a view of.
func (r *run) accumulate(to *node, nr int32, g *tensor) {
	old := to.grads[nr]
	switch {
	case old == nil:
		to.grads[nr] = g
	case old.refs == 1 && old.st.refs == 1 && !old.view && isDense(old.shape, old.stride):
		r.release(g)
	default:
		to.grads[nr] = r.pointwise(promote(old, g), old, g)
		r.release(old)
		r.release(g)
	}
}

// accumulateGrad stores a parameter's gradient (AccumulateGrad::accumulateGrad):
// the first is taken over when nothing else holds it and its strides are
// the parameter's, or row-major for a parameter that is not dense; later ones are
// added in place.
func (r *run) accumulateGrad(n *node, grads []*tensor) {
	l, g := n.leaf, grads[0]
	if g == nil {
		return
	}
	switch {
	case l.grad != nil:
		// variable_grad += new_grad
	case g.refs == 1 && obeysLayout(g, l.param):
		l.grad = r.alias(g, g.shape, g.stride)
		r.recategorize(g.st, timeline.Gradient)
	default:
		l.grad = r.strided(g.dtype, l.param.shape, obeyedStrides(l.param))
		r.recategorize(l.grad.st, timeline.Gradient)
	}
	r.release(g)
}

// obeysLayout is utils::obeys_layout_contract: strides of dimensions of size 1 do
// not count.
func obeysLayout(g, param *tensor) bool {
	want := obeyedStrides(param)
	for i, n := range param.shape {
		if n != 1 && g.stride[i] != want[i] {
			return false
		}
	}
	return true
}

func obeyedStrides(param *tensor) []int64 {
	if isDense(param.shape, param.stride) {
		return param.stride
	}
	return contiguousStrides(param.shape)
}

func sameShape(a, b []int64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}
