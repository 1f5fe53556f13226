package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// viewOps are the operators that only look at their argument differently, and those that
// join tensors.
var viewOps = []op{
	{"reshape", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor {
		return one(r.reshape(in[0],
			c.Args.Shape))
	}},
	{"permute", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor {
		return one(r.permute(in[0],
			c.Args.Dims))
	}},
	{"contiguous", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.contiguous(in[0])) }},
	{"expand", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.expand(in[0], c.Args.Shape)) }},
	{"unsqueeze", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor {
		return one(r.unsqueeze(in[0],
			c.Args.Dim))
	}},
	{"squeeze", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.squeeze(in[0], c.Args.Dim)) }},
	{"slice", castNone, runSlice},
	{"select", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.selectAt(in[0], c.Args.Dim)) }},
	{"split", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor {
		return r.split(in[0], c.Args.Dim,
			c.Args.Shape)
	}},
	{"unbind", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return r.unbind(in[0], c.Args.Dim) }},
	{"detach", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor {
		return one(r.alias(in[0], in[0].shape, in[0].stride))
	}},
	{"cat", castPromote, runCat},
	{"stack", castPromote, runStack},
	{"roll", castNone, unary("Roll", keepsNothing, 1)},
	{"flip", castNone, unary("Flip", keepsNothing, 1)},
	{"tril", castNone, unary("Tril", keepsNothing, 1)},
	{"tile", castNone, runTile},
}

// runSlice is a chain of slices, one for each of Args.Dims, of Args.Shape elements and
// Args.Stride steps.
func runSlice(r *run, c *program.Call, in []*tensor) []*tensor {
	t := in[0].retain()
	for i, d := range c.Args.Dims {
		step := int64(1)
		if i < len(c.Args.Stride) {
			step = c.Args.Stride[i]
		}
		s := r.slice(t, d, c.Args.Shape[i], step)
		r.release(t)
		t = s
	}
	return one(t)
}

// runCat is cat over Args.Dim: its backward narrows the gradient, so each part is a view
// that keeps the whole alive.
func runCat(r *run, c *program.Call, in []*tensor) []*tensor {
	d := c.Args.Dim
	shape := slices.Clone(in[0].shape)
	shape[d] = 0
	for _, t := range in {
		shape[d] += t.shape[d]
	}
	var out *tensor
	last := true
	for _, t := range in {
		last = last && t.isChannelsLast() && !t.isContiguous()
	}
	if last {
		out = r.strided(promote(in...), shape, kernels.ChannelsLast(shape))
	} else {
		out = r.empty(promote(in...), shape...)
	}
	if r.needsGrad(in...) {
		shapes := make([][]int64, len(in))
		for i, t := range in {
			shapes[i] = t.shape
		}
		r.record("Cat", one(out), in, nil, func(r *run, n *node, g []*tensor) []*tensor {
			return n.each(func(i int) *tensor { return r.alias(g[0], shapes[i], g[0].stride) })
		})
	}
	return one(out)
}

// runStack is stack over Args.Dim: cat of unsqueezed tensors.
func runStack(r *run, c *program.Call, in []*tensor) []*tensor {
	parts := make([]*tensor, len(in))
	for i, t := range in {
		parts[i] = r.unsqueeze(t, c.Args.Dim)
	}
	out := runCat(r, c, parts)
	for _, t := range parts {
		r.release(t)
	}
	return out
}

// runTile is Tensor.repeat: the result is Args.Shape; backward sums over the repeats.
func runTile(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.empty(x.dtype, c.Args.Shape...)
	if r.needsGrad(x) {
		shape, dtype := x.shape, x.dtype
		r.record("Repeat", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.empty(dtype, shape...))
		})
	}
	return one(out)
}
