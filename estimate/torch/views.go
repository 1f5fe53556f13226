package torch

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/simulate/kernels"
)

// The view operators: they allocate nothing, and their gradients mostly pass
// through as views. What they hide is the copy that reshape makes of a tensor
// whose strides cannot express the new shape.

// recordView makes v, an alias of t, the output of a node that knows what t looks like.
func (r *run) recordView(name string, v, t *tensor, backward rule) *tensor {
	if r.needsGrad(t) && t.dtype.IsFloat() {
		r.record(name, []*tensor{v}, []*tensor{t}, nil, backward).know(0, t.operand())
	}
	return v
}

// viewStrides returns strides that show t's elements in another shape without a copy
// (at::detail::computeStride), in the room given where that is enough.
func viewStrides(room []int64, t *tensor, shape []int64) ([]int64, bool) {
	n := t.numel()
	if n == 0 {
		return kernels.RowMajor(shape), true
	}
	stride := append(room[:0], shape...)
	if len(t.shape) == 0 {
		for i := range stride {
			stride[i] = 1
		}
		return stride, true
	}
	d := len(shape) - 1
	base := t.stride[len(t.stride)-1]
	have, view := int64(1), int64(1)
	for i := len(t.shape) - 1; i >= 0; i-- {
		have *= t.shape[i]
		if i > 0 && (t.shape[i-1] == 1 || t.stride[i-1] == have*base) {
			continue
		}
		for d >= 0 && (view < have || shape[d] == 1) {
			stride[d] = view * base
			view *= shape[d]
			d--
		}
		if view != have {
			return nil, false
		}
		if i > 0 {
			base = t.stride[i-1]
			have, view = 1, 1
		}
	}
	return stride, d == -1
}

// view is Tensor.view: t in another shape, without a copy; ok is false where that
// cannot be.
func (r *run) view(t *tensor, shape []int64) (*tensor, bool) {
	var room [8]int64
	stride, ok := viewStrides(room[:], t, shape)
	if !ok {
		return nil, false
	}
	return r.recordView("View", r.alias(t, shape, stride), t, func(r *run, n *node, g []*tensor) []*tensor {
		return r.alone(r.reshapeGrad(g[0], n.like(0).shape))
	}), true
}

// reshape is Tensor.reshape: a view where possible, else a view of a copy.
func (r *run) reshape(t *tensor, shape []int64) *tensor {
	if v, ok := r.view(t, shape); ok {
		return v
	}
	c := r.clone(t, kernels.RowMajor(t.shape))
	v, ok := r.view(c, shape)
	if !ok { // more elements than there are numbers
		r.tooLarge(fmt.Sprintf("shape %v", shape))
		v = r.alias(c, shape, kernels.RowMajor(shape))
	}
	r.release(c)
	return v
}

// reshapeGrad returns g in another shape, copied only if it must be. The result is
// a reference of its own.
func (r *run) reshapeGrad(g *tensor, shape []int64) *tensor {
	var room [8]int64
	if stride, ok := viewStrides(room[:], g, shape); ok {
		return r.alias(g, shape, stride)
	}
	c := r.strided(g.dtype, g.shape, kernels.RowMajor(g.shape))
	v := r.alias(c, shape, kernels.RowMajor(shape))
	r.release(c)
	return v
}

// clone copies t into these strides.
func (r *run) clone(t *tensor, stride []int64) *tensor {
	c := r.strided(t.dtype, t.shape, stride)
	if r.needsGrad(t) {
		r.record("Clone", []*tensor{c}, []*tensor{t}, nil, func(r *run, _ *node, g []*tensor) []*tensor {
			return []*tensor{g[0].retain()}
		})
	}
	return c
}

// contiguous is Tensor.contiguous: t itself, or a row-major copy.
func (r *run) contiguous(t *tensor) *tensor {
	if t.isContiguous() {
		return t.retain()
	}
	return r.clone(t, kernels.RowMajor(t.shape))
}

// permute is Tensor.permute.
func (r *run) permute(t *tensor, perm []int) *tensor {
	v := r.permuted(t, perm)
	if len(perm) == 2 && perm[0] == 1 {
		return r.recordView("Permute", v, t, transposeBackward)
	}
	inverse := make([]int, len(perm))
	for i, p := range perm {
		inverse[p] = i
	}
	return r.recordView("Permute", v, t, func(r *run, _ *node, g []*tensor) []*tensor {
		return r.alone(r.permuted(g[0], inverse))
	})
}

func transposeBackward(r *run, _ *node, g []*tensor) []*tensor {
	return r.alone(r.permuted(g[0], []int{1, 0}))
}

func (r *run) permuted(t *tensor, perm []int) *tensor {
	var room [16]int64
	shape, stride := room[:0:8], room[8:8]
	for _, p := range perm {
		shape, stride = append(shape, t.shape[p]), append(stride, t.stride[p])
	}
	return r.alias(t, shape, stride)
}

// transpose is Tensor.transpose.
func (r *run) transpose(t *tensor, a, b int) *tensor {
	if len(t.shape) == 2 && a != b {
		return r.permute(t, []int{1, 0})
	}
	perm := make([]int, len(t.shape))
	for i := range perm {
		perm[i] = i
	}
	perm[a], perm[b] = b, a
	return r.permute(t, perm)
}

// expand is Tensor.expand; its gradient is summed back.
func (r *run) expand(t *tensor, shape []int64) *tensor {
	if slices.Equal(shape, t.shape) {
		return t.retain()
	}
	stride := make([]int64, len(shape))
	lead := len(shape) - len(t.shape)
	for i := range shape {
		switch j := i - lead; {
		case j < 0:
		case t.shape[j] == 1 && shape[i] != 1:
		default:
			stride[i] = t.stride[j]
		}
	}
	return r.recordView("Expand", r.alias(t, shape, stride), t, func(r *run, n *node, g []*tensor) []*tensor {
		return r.alone(r.sumTo(g[0], n.like(0).shape))
	})
}

// unsqueeze is Tensor.unsqueeze.
func (r *run) unsqueeze(t *tensor, dim int) *tensor {
	return r.recordView("Unsqueeze", r.with(t, dim), t, func(r *run, _ *node, g []*tensor) []*tensor {
		return r.alone(r.without(g[0], dim))
	})
}

// squeeze drops a dimension of size 1.
func (r *run) squeeze(t *tensor, dim int) *tensor {
	return r.recordView("Squeeze", r.without(t, dim), t, func(r *run, _ *node, g []*tensor) []*tensor {
		return r.alone(r.with(g[0], dim))
	})
}

// with returns t with another dimension, of size 1.
func (r *run) with(t *tensor, dim int) *tensor {
	stride := int64(1)
	if dim < len(t.shape) {
		stride = t.shape[dim] * t.stride[dim]
	}
	return r.alias(t, slices.Insert(slices.Clone(t.shape), dim, 1), slices.Insert(slices.Clone(t.stride), dim, stride))
}

// without returns t at one place of a dimension, which goes.
func (r *run) without(t *tensor, dim int) *tensor {
	return r.alias(t, slices.Delete(slices.Clone(t.shape), dim, dim+1), slices.Delete(slices.Clone(t.stride), dim, dim+1))
}

// slice takes size elements of a dimension, step apart. Its backward fills a zero
// tensor of the whole input (slice_backward).
func (r *run) slice(t *tensor, dim int, size, step int64) *tensor {
	shape, stride := slices.Clone(t.shape), slices.Clone(t.stride)
	shape[dim], stride[dim] = size, stride[dim]*step
	return r.recordView("Slice", r.alias(t, shape, stride), t, sliceBackward)
}

// selectAt takes one element of a dimension and drops the dimension.
func (r *run) selectAt(t *tensor, dim int) *tensor {
	return r.recordView("Select", r.without(t, dim), t, sliceBackward)
}

func sliceBackward(r *run, n *node, g []*tensor) []*tensor {
	return r.alone(r.empty(g[0].dtype, n.like(0).shape...))
}

// split is Tensor.split: views of consecutive parts.
func (r *run) split(t *tensor, dim int, sizes []int64) []*tensor {
	outs := make([]*tensor, len(sizes))
	for i, n := range sizes {
		shape := slices.Clone(t.shape)
		shape[dim] = n
		outs[i] = r.alias(t, shape, t.stride)
	}
	return r.recordParts("Split", t, outs)
}

// unbind is Tensor.unbind: one view for each element of a dimension.
func (r *run) unbind(t *tensor, dim int) []*tensor {
	outs := make([]*tensor, t.shape[dim])
	for i := range outs {
		outs[i] = r.without(t, dim)
	}
	return r.recordParts("Unbind", t, outs)
}

// recordParts returns views of t's parts, whose backward puts the gradients together, with zeros for the parts that
// have none.
func (r *run) recordParts(name string, t *tensor, outs []*tensor) []*tensor {
	if !r.needsGrad(t) || !t.dtype.IsFloat() {
		return outs
	}
	whole, dtype, shapes := t.shape, t.dtype, make([][]int64, len(outs))
	for i, p := range outs {
		shapes[i] = p.shape
	}
	r.record(name, outs, []*tensor{t}, nil, func(r *run, _ *node, g []*tensor) []*tensor {
		var zeros []*tensor
		for i, x := range g {
			if x == nil {
				zeros = append(zeros, r.empty(dtype, shapes[i]...))
			}
		}
		out := r.empty(dtype, whole...)
		r.releaseAll(zeros)
		return one(out)
	})
	return outs
}
