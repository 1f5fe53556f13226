package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// sumTo returns g summed to a shape that broadcasts to g's (at::sum_to).
func (r *run) sumTo(g *tensor, shape []int64) *tensor {
	lead := len(g.shape) - len(shape)
	var room [8]int
	dims := room[:0]
	for i := range g.shape {
		if i < lead || shape[i-lead] == 1 && g.shape[i] != 1 {
			dims = append(dims, i)
		}
	}
	s := r.reduce(g, dims, true, g.dtype)
	if lead == 0 {
		return s
	}
	v := r.alias(s, shape, s.stride[lead:])
	r.release(s)
	return v
}

// reduce returns t reduced over dims, an empty list meaning all, and allocates what
// gpu_reduce_kernel needs on the way.
func (r *run) reduce(t *tensor, dims []int, keep bool, dtype program.DType) *tensor {
	if len(dims) == 0 {
		dims = allDims(t)
	}
	var room [8]int64
	shape := room[:0]
	for i, n := range t.shape {
		switch {
		case !slices.Contains(dims, i):
			shape = append(shape, n)
		case keep:
			shape = append(shape, 1)
		}
	}
	out := r.empty(dtype, shape...)
	if !t.dtype.IsFloat() && t.dtype != dtype { // sums of masks and integers are of their int64 copy
		t = r.emptyLike(t, dtype)
		defer r.release(t)
	}
	r.reduceScratch(t, dims)
	return out
}

func allDims(t *tensor) []int {
	dims := make([]int, len(t.shape))
	for i := range dims {
		dims[i] = i
	}
	return dims
}

// reduceScratch allocates and frees what a reduction over dims takes on the way.
func (r *run) reduceScratch(t *tensor, dims []int) {
	bytes := t.dtype.Bits() / 8
	r.play(kernels.Reduction(t.shape, t.stride, dims, bytes, max(bytes, 4), *r.opts.GPU), nil)
}
