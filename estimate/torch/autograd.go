package torch

import (
	"container/heap"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// readyQueue is a heap of nodes that have all their gradients: the last recorded
// first, AccumulateGrad before all (torch/csrc/autograd/engine.cpp, CompareNodeTaskTime).
type readyQueue []*node

func (q readyQueue) Len() int           { return len(q) }
func (q readyQueue) Less(i, j int) bool { return q[i].seq > q[j].seq }
func (q readyQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *readyQueue) Push(n any)        { *q = append(*q, n.(*node)) }

// Pop takes the last of the list; heap.Pop the first of the order.
func (q *readyQueue) Pop() any {
	last := len(*q) - 1
	n := (*q)[last]
	*q = (*q)[:last]
	return n
}

// runBackward is loss.backward(): it sends a gradient of ones through the graph
// (Engine::execute and Engine::evaluate_function).
func (r *run) runBackward(loss *tensor) {
	if loss.fn == nil {
		return
	}
	r.grad, r.inBackward = false, true
	ones := r.emptyLike(loss, loss.dtype) // torch.ones_like(loss), kept by the caller to the end
	r.backwardFrom(loss, ones)
	r.reduceDelayed()
	r.dropOld()
	r.endBackward()
	r.release(ones)
}

// backwardFrom is y.backward(gradient): the gradient stays the caller's.
func (r *run) backwardFrom(y, gradient *tensor) {
	r.grad, r.inBackward = false, true
	outer := r.layer
	*y.fn.gradient(y.nr) = gradient.retain()
	r.backwardOf(y.fn)
	r.layer = outer
	r.grad, r.inBackward = true, false
}

// backwardOf runs a node, and all that it leads to.
func (r *run) backwardOf(root *node) {
	r.grad = false
	r.passes++
	r.countDeps(root, r.passes)
	queue := readyQueue{root}
	for len(queue) > 0 {
		n := heap.Pop(&queue).(*node)
		r.evaluate(n, &queue)
		r.recycle()
	}
}

// countDeps counts, for every node reachable from root, the edges that lead to it.
func (r *run) countDeps(root *node, pass int32) {
	root.mark, root.deps = pass, 0
	work := append(r.work[:0], root)
	for len(work) > 0 {
		n := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range n.next {
			fn := e.fn
			if fn == nil {
				continue
			}
			if fn.mark != pass {
				fn.mark, fn.deps = pass, 0
				if fn.leaf == nil {
					work = append(work, fn)
				}
			}
			fn.deps++
		}
	}
	r.work = work
}

// evaluate runs one node: its gradients and saved tensors are alive while it does,
// then the gradients go, then what it saved, then the results are handed on. It lets go of the nodes behind it, which
// PyTorch keeps with nothing left to hold.
func (r *run) evaluate(n *node, queue *readyQueue) {
	r.layer = n.layer
	if n.leaf != nil {
		g := n.grad
		n.grad = nil
		r.accumulateGrad(n.leaf, g)
		return
	}
	if n.gate != nil {
		r.beforeBackward(n.gate)
	}
	if n.packed != nil {
		r.unpack(n)
	}
	grads := append(r.grads[:0], n.grad)
	n.grad = nil
	if n.more != nil {
		for i := range *n.more {
			o := &(*n.more)[i]
			grads = append(grads, o.grad)
			o.grad = nil
		}
	}
	r.grads = grads
	var outs []*tensor
	if n.backward != nil && slices.ContainsFunc(grads, func(g *tensor) bool { return g != nil }) {
		outs = n.backward(r, n, grads)
	} // else nothing arrived, or it ran before and let go, where PyTorch raises: nothing goes on
	// SavedVariable::unpack has a hook's tensor for the length of the call alone: validate_outputs comes after it
	if n.packed != nil {
		for _, s := range n.saved {
			r.drop(s)
		}
		n.saved = n.saved[:0]
	}
	for i, g := range outs {
		if g != nil && n.wants(i) {
			outs[i] = r.validate(g, n.next[i].fn.want(n.next[i].nr))
		}
	}
	for _, g := range grads {
		r.release(g)
	}
	r.releaseSaved(n)
	for i, e := range n.next {
		to := e.fn
		if to == nil {
			continue
		}
		if i < len(outs) && outs[i] != nil {
			r.accumulate(to.gradient(e.nr), outs[i])
			outs[i] = nil
		}
		to.refs--
		if to.deps--; to.deps == 0 {
			heap.Push(queue, to)
		}
	}
	for _, g := range outs { // gradients that nothing wanted
		r.release(g)
	}
	n.letGo()
	if n.refs == 0 {
		r.freed.nodes = append(r.freed.nodes, n.recorded)
	}
}

// validate is validate_outputs: a gradient of a broadcast input is summed to its
// shape, and one of another element type is cast.
func (r *run) validate(g *tensor, want meta) *tensor {
	if g.layout != want.layout && !slices.Equal(g.shape, want.shape) {
		if !program.Broadcasts(want.shape, g.shape) { // an argument that its operator does not take, and no row refused
			if r.err == nil {
				r.err = fmt.Errorf("a gradient of shape %v for an argument of %v", g.shape, want.shape)
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
func (r *run) accumulate(to **tensor, g *tensor) {
	old := *to
	switch {
	case old == nil:
		*to = g
	case old.refs == 1 && old.st.refs == 1 && !old.view && old.dense:
		r.release(g)
	default:
		*to = r.pointwise(promote(old, g), old, g)
		r.release(old)
		r.release(g)
	}
}

// accumulateGrad stores a parameter's gradient (AccumulateGrad::accumulateGrad):
// the first is taken over when nothing else holds it and its strides are
// the parameter's, or row-major for a parameter that is not dense; later ones are
// added in place.
func (r *run) accumulateGrad(l *leaf, g *tensor) {
	if g == nil {
		return
	}
	switch {
	case l.grad != nil:
		// variable_grad += new_grad
	case g.refs == 1 && obeysLayout(g, l.param):
		l.grad = r.look(g, g.layout)
		r.recategorize(g.st, timeline.Gradient)
	default:
		l.grad = r.strided(g.dtype, l.param.shape, obeyedStrides(l.param))
		r.recategorize(l.grad.st, timeline.Gradient)
	}
	r.release(g)
	if l.hooked {
		return
	}
	r.reduceGradient(l)
}

// obeysLayout is utils::obeys_layout_contract: strides of dimensions of size 1 do
// not count.
func obeysLayout(g, param *tensor) bool {
	if g.layout == param.layout && param.dense {
		return true
	}
	want := obeyedStrides(param)
	for i, n := range param.shape {
		if n != 1 && g.stride[i] != want[i] {
			return false
		}
	}
	return true
}

func obeyedStrides(param *tensor) []int64 {
	if param.dense {
		return param.stride
	}
	return kernels.RowMajor(param.shape)
}
