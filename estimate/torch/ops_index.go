package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// indexOps pick elements by integer tensors.
var indexOps = []op{
	{"embedding", castNone, runEmbedding}, // cuda/Embedding.cu
	{"index", castNone, runIndex},         // x[:, idx]: indexing_backward sorts the places
	{"gather", castNone, runGather},
	{"scatter", castNone, runScatter},
	{"assign", castNone, runAssign},
}

// runEmbedding is embedding(weight, ids): a dense gradient of the whole table, and sort
// buffers when there are more than 3072 ids.
func runEmbedding(r *run, c *program.Call, in []*tensor) []*tensor {
	w, ids := in[0], in[1]
	d := w.shape[len(w.shape)-1]
	flat := ids.retain() // index_select wants a row of ids: indices.reshape(-1)
	if _, ok := viewStrides(nil, ids, []int64{ids.numel()}); !ok {
		r.release(flat)
		flat = r.empty(ids.dtype, ids.shape...)
	}
	out := r.empty(w.dtype, append(append([]int64{}, ids.shape...), d)...)
	r.release(flat)
	if r.needsGrad(w) {
		shape, dtype, ic := w.shape, w.dtype, *ids
		r.record("Embedding", one(out), one(w), one(ids), func(r *run, _ *node, g []*tensor) []*tensor {
			ii := r.inLayout(&ic, inRows)
			gi := r.inLayout(g[0], inRows)
			var t *tensor
			rows := int64(0)
			if len(shape) > 1 {
				rows = shape[0]
			}
			r.play(kernels.EmbeddingBackward(ic.numel(), rows, program.Numel(shape)/max(rows, 1), dtype.Bits()/8, *r.opts.GPU),
				func(int) { t = r.empty(dtype, shape...) })
			r.releaseCopy(gi, g[0])
			r.releaseCopy(ii, &ic)
			return one(t)
		})
	}
	return one(out)
}

// runIndex is advanced indexing; Args.Shape is the result's.
func runIndex(r *run, c *program.Call, in []*tensor) []*tensor {
	x, idx := in[0], in[1]
	out := r.empty(x.dtype, c.Args.Shape...)
	if r.needsGrad(x) {
		shape, dtype, n := x.shape, x.dtype, idx.numel()
		r.record("Index", one(out), one(x), one(idx), func(r *run, _ *node, g []*tensor) []*tensor {
			t := r.empty(dtype, shape...)
			rows := int64(1)
			if d := c.Args.Dim; d >= 0 && d < len(shape) {
				rows = shape[d]
			}
			r.play(kernels.IndexPut(n, rows, copiedBytes(g[0], inRows, r)), nil)
			return one(t)
		})
	}
	return one(out)
}

// runGather is gather(self, Args.Dim, index).
func runGather(r *run, c *program.Call, in []*tensor) []*tensor {
	x, idx := in[0], in[1]
	out := r.empty(x.dtype, idx.shape...)
	if r.needsGrad(x) {
		shape, dtype := x.shape, x.dtype
		r.record("Gather", one(out), one(x), []*tensor{x, idx}, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.empty(dtype, shape...))
		})
	}
	return one(out)
}

// runScatter is scatter or scatter_add out of place: a clone that is written to.
func runScatter(r *run, c *program.Call, in []*tensor) []*tensor {
	x, idx, src := in[0], in[1], in[2]
	out := r.emptyLike(x, x.dtype)
	if r.needsGrad(x, src) {
		shapes := [][]int64{x.shape, nil, src.shape}
		r.record("Scatter", one(out), in, one(idx), func(r *run, n *node, g []*tensor) []*tensor {
			return n.each(func(i int) *tensor { return r.empty(g[0].dtype, shapes[i]...) })
		})
	}
	return one(out)
}

// runAssign is x[...] = y: copy_ to a view of x. CopySlices gives x a copy of the gradient with zeros where it was
// written, and y a part of it (torch/csrc/autograd/functions/tensor.cpp).
func runAssign(r *run, c *program.Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.alias(x, x.shape, x.stride)
	if r.needsGrad(x, y) {
		shape, dtype := y.shape, y.dtype
		r.record("CopySlices", one(out), in, nil, func(r *run, n *node, g []*tensor) []*tensor {
			outs := make([]*tensor, 2)
			base := r.emptyLike(g[0], g[0].dtype)
			if n.wants(1) {
				outs[1] = r.empty(dtype, shape...)
			}
			if n.wants(0) {
				outs[0] = base
			} else {
				r.release(base)
			}
			return outs
		})
	}
	return one(out)
}
