package eager

import (
	"math"
	"math/bits"
	"slices"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
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
func (r *run) reduce(t *tensor, dims []int, keep bool, dtype onnxload.DType) *tensor {
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

// reduceScratch allocates and frees the staging buffer and the semaphores of a
// reduction over dims that several thread blocks share (Reduce.cuh, gpu_reduce_kernel).
func (r *run) reduceScratch(t *tensor, dims []int) {
	known := &r.reduced[(uint64(t.elements)+uint64(len(dims)))*0x9e3779b97f4a7c15>>32%uint64(len(r.reduced))]
	mask := uint64(0)
	for _, d := range dims {
		mask |= 1 << d
	}
	if known.layout == t.layout && known.dims == mask && known.dtype == t.dtype {
		r.reductionScratch(known)
		return
	}
	if d := splitDim(t.shape, t.stride, t.dtype); d >= 0 {
		low, high := *t, *t
		a, b := slices.Clone(t.shape), slices.Clone(t.shape)
		a[d] /= 2
		b[d] -= a[d]
		low.layout, high.layout = r.layouts.at(a, t.stride), r.layouts.at(b, t.stride)
		r.reduceScratch(&low, dims)
		if t.bytes() <= wholeReductions { // the two parts are alike
			r.reduceScratch(&high, dims)
		}
		return
	}
	staging, semaphores := reduceBuffers(t.shape, t.stride, dims, t.dtype, r.opts.GPU)
	*known = reduction{t.layout, mask, t.dtype, staging, semaphores}
	r.reductionScratch(known)
}

// A reduction is what reducing a tensor over some dimensions takes.
type reduction struct {
	*layout
	dims  uint64 // a bit for each
	dtype onnxload.DType

	staging, semaphores int64
}

func (r *run) reductionScratch(k *reduction) {
	if k.staging == 0 {
		return
	}
	a := r.alloc(k.staging, timeline.Workspace)
	b := r.alloc(k.semaphores, timeline.Workspace)
	r.drop(b)
	r.drop(a)
}

// wholeReductions is the largest tensor, in bytes, of whose reduction every part is followed: no GPU has more memory.
const wholeReductions = 1 << 40

// splitDim returns the dimension at which TensorIterator cuts a tensor in two because offsets into it do
// not fit in 32 bits, the one of the largest extent; -1 where they fit (can_use_32bit_indexing and
// get_dim_to_split in aten/src/ATen/TensorIterator.cpp).
func splitDim(shape, stride []int64, dtype onnxload.DType) int {
	elem := dtype.Bits() / 8
	last, most, dim := int64(1), int64(0), -1
	for i := range shape {
		extent := (shape[i] - 1) * stride[i] * elem
		last += extent
		if extent > most {
			most, dim = extent, i
		}
	}
	if numel(shape) <= math.MaxInt32 && last <= math.MaxInt32 {
		return -1
	}
	return dim
}

// An axis of a reduction as TensorIterator sees it after it has merged neighbours.
type axis struct {
	size, in int64 // elements, and the input's stride in elements
	out      int64 // the output's stride: 0 for reduced axes
}

// reduceBuffers returns the bytes of the staging buffer and of the semaphores that
// reducing dims of such a tensor takes, both 0 when one block per output suffices.
// The rules are those of ReduceConfig and setReduceConfig in
// aten/src/ATen/native/cuda/Reduce.cuh with accumulators of 4 bytes, or 8 for wider elements.
func reduceBuffers(shape, stride []int64, dims []int, dtype onnxload.DType, gpu *GPU) (staging, semaphores int64) {
	axes, reduced := reductionAxes(shape, stride, dims)
	outputs, inputs := int64(1), int64(1)
	for _, a := range axes {
		if a.out == 0 {
			inputs *= a.size
		} else {
			outputs *= a.size
		}
	}
	if inputs == 0 || outputs == 0 {
		return 0, 0
	}
	const (
		vt0          = 4
		minPerThread = 16
		maxPerThread = 256
		warp         = 32
	)
	accumulator := max(dtype.Bits()/8, 4) // acc_type of float and half types is float
	dim0, dim1 := int64(1), int64(1)
	onFastest := true
	vector := int64(1)
	if len(axes) > 0 {
		onFastest = reduced == len(axes) || axes[0].in < axes[reduced].in
		fastest := axes[0].in
		dim0, dim1 = inputs, outputs
		if !onFastest {
			fastest = axes[reduced].in
			dim0, dim1 = outputs, inputs
		}
		if fastest == 1 {
			if onFastest && dim0 > 128 && len(axes) == 1 {
				dim0 /= vt0
			} else if !onFastest {
				vector = outputVector(axes, reduced)
				dim0 /= vector
			}
		}
	}
	maxThreads := int64(512) / vector
	p0, p1 := min(lastPow2(dim0), maxThreads), min(lastPow2(dim1), maxThreads)
	width := min(p0, warp)
	height := min(p1, maxThreads/width)
	width = min(p0, maxThreads/height)

	stepIn, stepOut := int64(1), int64(1)
	blockX := onFastest
	if blockX {
		stepIn *= width
	} else {
		stepOut *= width
	}
	perThread := func() int64 { return ceilDiv(inputs, stepIn) }
	if perThread() < min(height*16, maxPerThread) {
		stepOut *= height
		return 0, 0 // no split across warps, so none across blocks
	}
	stepIn *= height
	grid := ceilDiv(outputs/vector, stepOut)
	target := int64(gpu.SMs) * (int64(gpu.ThreadsPerSM) / (width * height))
	if perThread() < maxPerThread || grid > target {
		return 0, 0
	}
	ctas := max(min(ceilDiv(target, grid), ceilDiv(perThread(), minPerThread)), ceilDiv(perThread(), maxPerThread))
	if ctas <= 1 {
		return 0, 0
	}
	staging = accumulator * outputs * ctas
	if !blockX {
		staging *= width * vector
	}
	return staging, 4 * grid
}

// reductionAxes orders the axes as TensorIterator does for a reduction, reduced
// ones first, each group by the input's strides, and merges those that are one
// run in memory. It returns how many of them are reduced.
func reductionAxes(shape, stride []int64, dims []int) (axes []axis, reduced int) {
	var in, kept []axis
	for i, n := range shape {
		if n == 1 {
			continue
		}
		a := axis{size: n, in: stride[i], out: 1}
		if slices.Contains(dims, i) {
			a.out = 0
			in = append(in, a)
		} else {
			kept = append(kept, a)
		}
	}
	group := func(list []axis) []axis {
		slices.Reverse(list)
		slices.SortStableFunc(list, func(a, b axis) int { return int(min(1, max(-1, a.in-b.in))) })
		var out []axis
		for _, a := range list {
			if k := len(out) - 1; k >= 0 && out[k].in*out[k].size == a.in {
				out[k].size *= a.size
				continue
			}
			out = append(out, a)
		}
		return out
	}
	in, kept = group(in), group(kept)
	return append(in, kept...), len(in)
}

// outputVector is get_output_vec_size: the widest vector, at most 4, by which the
// fastest kept axis and all other strides can be divided.
func outputVector(axes []axis, reduced int) int64 {
	v := int64(4)
	for axes[reduced].size%v != 0 {
		v /= 2
	}
	for i, a := range axes {
		if i == reduced {
			continue
		}
		for a.in%v != 0 {
			v /= 2
		}
	}
	return v
}

// lastPow2 returns the largest power of two that is not above n, and 1 for less.
func lastPow2(n int64) int64 {
	if n < 1 {
		return 1
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }
