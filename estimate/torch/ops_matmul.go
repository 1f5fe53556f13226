package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// matmulOps are the matrix products.
var matmulOps = []op{
	{"linear", castLower, runLinear}, // aten/src/ATen/native/Linear.cpp
	{"matmul", castLower, runMatmul}, // aten/src/ATen/native/LinearAlgebra.cpp
	{"addmm", castLower, runAddmm},
}

// useBLAS takes the workspaces that a matrix product's thread keeps for good once it has
// met its first: cuBLAS's, and cublasLt's when the product has a bias epilogue
// (aten/src/ATen/cuda/CublasHandlePool.cpp). They come after the product's output.
func (r *run) useBLAS(lt bool) {
	if r.stopped() {
		return
	}
	t := r.thread()
	if !r.blas[t] {
		r.blas[t] = true
		r.alloc(r.opts.GPU.BLASWorkspace, timeline.Workspace)
	}
	if lt && !r.lt[t] {
		r.lt[t] = true
		r.alloc(r.opts.GPU.LtWorkspace, timeline.Workspace)
	}
}

// thread is 0 for the Python thread and 1 for the autograd engine's: each has handles of its own.
func (r *run) thread() int {
	if r.inBackward {
		return 1
	}
	return 0
}

// operand returns t, or a row-major copy where a matrix product needs one.
func (r *run) operand(t *tensor) *tensor {
	k := len(t.shape)
	if !kernels.BLASCopies(t.shape[k-2], t.shape[k-1], t.stride[k-2], t.stride[k-1]) {
		return t.retain()
	}
	return r.strided(t.dtype, t.shape, kernels.RowMajor(t.shape))
}

// product allocates the result of a matrix product of a and b.
func (r *run) product(a, b *tensor, shape []int64, lt bool) *tensor {
	x, y := r.operand(a), r.operand(b)
	out := r.empty(a.dtype, shape...)
	r.useBLAS(lt)
	r.release(x)
	r.release(y)
	return out
}

// runLinear is F.linear(input, weight, bias).
func runLinear(r *run, c *program.Call, in []*tensor) []*tensor {
	x, w := in[0], in[1]
	var b *tensor
	if len(in) > 2 {
		b = in[2]
	}
	return r.alone(r.linear(x, w, b))
}

func (r *run) linear(x, w, b *tensor) *tensor {
	wt := r.transpose(w, 0, 1)
	defer r.release(wt)
	switch {
	case b != nil && len(x.shape) == 2:
		return r.addmm(b, x, wt)
	case b != nil && x.isContiguous():
		k := len(x.shape) - 1
		flat := r.reshape(x, []int64{program.Numel(x.shape[:k]), x.shape[k]})
		y := r.addmm(b, flat, wt)
		out := r.reshape(y, append(slices.Clone(x.shape[:k]), w.shape[0]))
		r.release(flat)
		r.release(y)
		return out
	}
	out := r.matmul(x, wt)
	if b != nil {
		out2 := runAdd(r, &program.Call{Args: &program.Args{Inplace: true}}, []*tensor{out, b})[0]
		r.release(out)
		return out2
	}
	return out
}

func runAddmm(r *run, c *program.Call, in []*tensor) []*tensor {
	return r.alone(r.addmm(in[0], in[1], in[2]))
}

// addmm is bias + a @ b.
func (r *run) addmm(bias, a, b *tensor) *tensor {
	lt := kernels.LtEpilogue(len(bias.shape), a.shape[0], a.shape[1], b.shape[1])
	out := r.product(a, b, []int64{a.shape[0], b.shape[1]}, lt)
	if r.needsGrad(bias, a, b) {
		r.recordMM("Addmm", out, a, b, bias)
	}
	return out
}

func (r *run) mm(a, b *tensor) *tensor {
	out := r.product(a, b, []int64{a.shape[0], b.shape[1]}, false)
	if r.needsGrad(a, b) {
		r.recordMM("Mm", out, a, b, nil)
	}
	return out
}

// recordMM records a product of matrices. The gradient of an operand that was
// column-major is computed transposed, so that it is column-major too
// (mm_mat1_grad, mm_mat2_grad).
func (r *run) recordMM(name string, out, a, b, bias *tensor) {
	var left, right *tensor // to save
	if b.requiresGrad {
		left = a
	}
	if a.requiresGrad {
		right = b
	}
	var n *node
	if bias == nil {
		n = r.record(name, one(out), []*tensor{a, b}, []*tensor{right, left}, mmBackward) // mat2, self
	} else {
		n = r.record(name, one(out), []*tensor{bias, a, b}, []*tensor{left, right}, addmmBackward) // mat1, mat2
	}
	n.know(0, a.operand())
	n.know(1, b.operand())
}

// mmBackward takes mat2, self.
func mmBackward(r *run, n *node, g []*tensor) []*tensor {
	a, b := r.looks(0, n.like(0)), r.looks(1, n.like(1))
	outs := r.outs(2)
	if n.wants(1) {
		outs[1] = r.matrixGrad(a, g[0], b)
	}
	if n.wants(0) {
		outs[0] = r.matrixGrad(g[0], b, a)
	}
	return outs
}

// addmmBackward takes mat1, mat2, self.
func addmmBackward(r *run, n *node, g []*tensor) []*tensor {
	a, b := r.looks(0, n.like(0)), r.looks(1, n.like(1))
	outs := r.outs(3)
	if n.wants(0) {
		outs[0] = g[0].retain()
	}
	if n.wants(1) {
		outs[1] = r.matrixGrad(g[0], b, a)
	}
	if n.wants(2) {
		outs[2] = r.matrixGrad(a, g[0], b)
	}
	return outs
}

// matrixGrad multiplies x and y into a matrix of like's shape and layout.
func (r *run) matrixGrad(x, y, like *tensor) *tensor {
	columns := like.stride[0] == 1 && like.stride[1] == like.shape[0] &&
		!(like.stride[1] == 1 && like.stride[0] == like.shape[1])
	out := r.product(x, y, like.shape, false)
	if columns {
		out.layout, out.view = r.layouts.at(like.shape, []int64{1, like.shape[0]}), true
	}
	return out
}

// runMatmul is torch.matmul. It takes two tensors of one type only: where a graph has two, the program casts the wider
// one to the other's before, which an export in float32 does not show.
func runMatmul(r *run, c *program.Call, in []*tensor) []*tensor {
	a, b := in[0], in[1]
	if !a.dtype.IsFloat() || !b.dtype.IsFloat() || a.dtype == b.dtype {
		return one(r.matmul(a, b))
	}
	to := a.dtype
	if wider(a.dtype, b.dtype) == a.dtype {
		to = b.dtype
	}
	x, y := r.to(a, to), r.to(b, to)
	out := r.matmul(x, y)
	r.release(x)
	r.release(y)
	return one(out)
}

// matmul is torch.matmul: it folds the batch of one operand into its rows when the other
// is a matrix, and else multiplies batches (_matmul_impl). The folding of a tensor
// whose strides do not allow it, and the flattening of an expanded batch, copy.
func (r *run) matmul(a, b *tensor) *tensor {
	switch {
	case len(a.shape) == 1 && len(b.shape) == 1:
		out := r.empty(a.dtype)
		r.useBLAS(false)
		if r.needsGrad(a, b) {
			ac := [2]tensor{*b, *a}
			r.record("Dot", one(out), []*tensor{a, b}, []*tensor{a, b}, func(r *run, n *node, g []*tensor) []*tensor {
				return n.each(func(i int) *tensor { return r.pointwise(g[0].dtype, g[0], &ac[i]) })
			})
		}
		return out
	case len(a.shape) == 2 && len(b.shape) == 2:
		return r.mm(a, b)
	case len(b.shape) == 1:
		col := r.unsqueeze(b, 1)
		y := r.matmul(a, col)
		out := r.squeeze(y, len(y.shape)-1)
		r.release(col)
		r.release(y)
		return out
	case len(a.shape) == 1:
		row := r.unsqueeze(a, 0)
		y := r.matmul(row, b)
		out := r.squeeze(y, len(y.shape)-2)
		r.release(row)
		r.release(y)
		return out
	case len(b.shape) == 2 && r.folds(a, b):
		k := len(a.shape) - 1
		flat := r.reshape(a, []int64{program.Numel(a.shape[:k]), a.shape[k]})
		y := r.mm(flat, b)
		out := r.reshape(y, append(slices.Clone(a.shape[:k]), b.shape[1]))
		r.release(flat)
		r.release(y)
		return out
	case len(a.shape) == 2 && r.folds(b, a):
		bt, at := r.transpose(b, len(b.shape)-2, len(b.shape)-1), r.transpose(a, 0, 1)
		k := len(bt.shape) - 1
		flat := r.reshape(bt, []int64{program.Numel(bt.shape[:k]), bt.shape[k]})
		y := r.mm(flat, at)
		folded := r.reshape(y, append(slices.Clone(bt.shape[:k]), at.shape[1]))
		out := r.transpose(folded, len(folded.shape)-2, len(folded.shape)-1)
		for _, t := range []*tensor{bt, at, flat, y, folded} {
			r.release(t)
		}
		return out
	}
	return r.batched(a, b)
}

// folds is should_fold: a batched tensor with a matrix, when the matrix wants a gradient or
// the batch folds without a copy.
func (r *run) folds(batched, matrix *tensor) bool {
	if len(batched.shape) < 3 {
		return false
	}
	// A view of a parameter wants a gradient even under no_grad: it asks the tensor that
	// it is a view of (DifferentiableViewMeta::requires_grad in torch/csrc/autograd/variable.h).
	if r.needsGrad(matrix) || matrix.view && matrix.st.parameter || len(batched.shape) == 2 {
		return true
	}
	if batched.numel() == 0 {
		return true
	}
	for i := 0; i+2 < len(batched.shape); i++ { // the batch dimensions merge with the rows
		if batched.stride[i] != batched.stride[i+1]*batched.shape[i+1] {
			return false
		}
	}
	return true
}

// batched multiplies stacks of matrices through bmm.
func (r *run) batched(a, b *tensor) *tensor {
	la, lb := len(a.shape), len(b.shape)
	batch := program.BroadcastShapes(a.shape[:la-2], b.shape[:lb-2])
	n, m, k, p := program.Numel(batch), a.shape[la-2], a.shape[la-1], b.shape[lb-1]
	ea := r.expand(a, append(slices.Clone(batch), m, k))
	eb := r.expand(b, append(slices.Clone(batch), k, p))
	fa := r.reshape(ea, []int64{n, m, k})
	fb := r.reshape(eb, []int64{n, k, p})
	y := r.bmm(fa, fb)
	out := r.reshape(y, append(slices.Clone(batch), m, p))
	for _, t := range []*tensor{ea, eb, fa, fb, y} {
		r.release(t)
	}
	return out
}

// bmm is the product of two stacks of matrices.
func (r *run) bmm(a, b *tensor) *tensor {
	out := r.product(a, b, []int64{a.shape[0], a.shape[1], b.shape[2]}, false)
	if r.needsGrad(a, b) {
		var saved []*tensor // mat2, self
		if a.requiresGrad {
			saved = append(saved, b)
		}
		if b.requiresGrad {
			saved = append(saved, a)
		}
		n := r.record("Bmm", one(out), []*tensor{a, b}, saved, bmmBackward)
		n.know(0, a.operand())
		n.know(1, b.operand())
	}
	return out
}

// bmmBackward takes mat2, self.
func bmmBackward(r *run, n *node, g []*tensor) []*tensor {
	a, b := r.looks(0, n.like(0)), r.looks(1, n.like(1))
	outs := r.outs(2)
	if n.wants(1) {
		outs[1] = r.product(a, g[0], b.shape, false)
	}
	if n.wants(0) {
		outs[0] = r.product(g[0], b, a.shape, false)
	}
	return outs
}
