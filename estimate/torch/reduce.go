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
	known := &r.reduced[(uint64(t.elements)+uint64(len(dims)))*0x9e3779b97f4a7c15>>32%uint64(len(r.reduced))]
	mask := uint64(0)
	for _, d := range dims {
		mask |= 1 << d
	}
	if known.layout != t.layout || known.dims != mask || known.dtype != t.dtype {
		*known = reduction{t.layout, mask, t.dtype, kernels.Reduction(t.shape, t.stride, dims, t.dtype.Bits()/8,
			max(t.dtype.Bits()/8, 4), *r.opts.GPU)}
	}
	r.play(known.script, nil)
}

// A reduction is what reducing a tensor over some dimensions takes.
type reduction struct {
	*layout
	dims   uint64 // a bit for each
	dtype  program.DType
	script kernels.Script
}
