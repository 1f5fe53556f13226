package torch

import "github.com/memestimate/memestimate/estimate/program"

// requireGrads is a forward hook's output.requires_grad_(True) on what a call made. The graph's AccumulateGrad keeps
// such a leaf, and in it the gradient that it collects, which nobody reads, until the loss is assigned again.
func (r *run) requireGrads(c *program.Call, values []*tensor) {
	for _, v := range c.Out {
		if v == program.NoValue || !r.prog.Values[v].Leaf || !r.grad || values[v].requiresGrad {
			continue
		}
		l := r.leaves.one()
		*l = leaf{param: values[v].retain(), hooked: true}
		l.param.requiresGrad, l.param.leaf = true, l
		r.hooked[1] = append(r.hooked[1], l)
	}
}

// forgetHooked is what the end of the loss before means to the leaves of its graph.
func (r *run) forgetHooked() {
	for _, l := range r.hooked[0] {
		r.release(l.grad)
		r.release(l.param)
	}
	r.hooked[0], r.hooked[1] = r.hooked[1], r.hooked[0][:0]
}

// heldByGraph returns what is held behind the loss once backward has run.
func (r *run) heldByGraph() (list []*tensor) {
	for _, l := range r.hooked[0] {
		list = append(list, l.param, l.grad)
	}
	return list
}
