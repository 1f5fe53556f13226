package kernels

import (
	"math"
	"slices"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// Reduction is what reducing dims of a tensor takes: the staging buffer and the semaphores of a
// reduction that several thread blocks share (Reduce.cuh, gpu_reduce_kernel), by accumulators of so many bytes.
func Reduction(shape, stride []int64, dims []int, elem, accumulator int64, d gpu.Device) (s Script) {
	if split := splitDim(shape, stride, elem); split >= 0 {
		low, high := slices.Clone(shape), slices.Clone(shape)
		low[split] /= 2
		high[split] -= low[split]
		s.play(Reduction(low, stride, dims, elem, accumulator, d))
		if saturate(saturate(shape...), elem) <= wholeReductions { // the two parts are alike
			s.play(Reduction(high, stride, dims, elem, accumulator, d))
		}
		return s
	}
	staging, semaphores := reduceBuffers(shape, stride, dims, accumulator, d)
	if staging == 0 {
		return nil
	}
	a := s.take(staging)
	b := s.take(semaphores)
	s.give(b, a)
	return s
}

// What a reduction accumulates, in bytes of elements of so many.
func sumAccumulator(elem int64) int64   { return max(elem, 4) }    // acc_type of float and half types is float
func placeAccumulator(elem int64) int64 { return max(16, 2*elem) } // a value and its place, an int64: MinOps, ArgMinOps
func plainAccumulator(elem int64) int64 { return elem }
func pairAccumulator(elem int64) int64  { return 2 * elem } // the least and the largest: MinMaxOps
func momentAccumulator(elem int64) int64 { // mean, sum of squares, and two counts: WelfordData
	return max(16, 4*elem)
}

// wholeReductions is the largest tensor, in bytes, of whose reduction every part is followed: no GPU has more memory.
const wholeReductions = 1 << 40

// splitDim returns the dimension at which TensorIterator cuts a tensor in two because offsets into it do
// not fit in 32 bits, the one of the largest extent; -1 where they fit (can_use_32bit_indexing and
// get_dim_to_split in aten/src/ATen/TensorIterator.cpp).
func splitDim(shape, stride []int64, elem int64) int {
	last, longest, dim := int64(1), int64(0), -1
	for i := range shape {
		extent := (shape[i] - 1) * stride[i] * elem
		last += extent
		if extent > longest {
			longest, dim = extent, i
		}
	}
	if saturate(shape...) <= math.MaxInt32 && last <= math.MaxInt32 {
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
// aten/src/ATen/native/cuda/Reduce.cuh.
func reduceBuffers(shape, stride []int64, dims []int, accumulator int64, d gpu.Device) (staging, semaphores int64) {
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
	if onFastest {
		stepIn *= width
	} else {
		stepOut *= width
	}
	perThread := func() int64 { return ceilDiv(inputs, stepIn) }
	if perThread() < min(height*16, maxPerThread) {
		return 0, 0 // no split across warps, so none across blocks
	}
	stepIn *= height
	grid := ceilDiv(outputs/vector, stepOut)
	target := int64(d.Multiprocessors) * (int64(d.Capability.ResidentThreads()) / (width * height))
	if perThread() < maxPerThread || grid > target {
		return 0, 0
	}
	ctas := max(min(ceilDiv(target, grid), ceilDiv(perThread(), minPerThread)), ceilDiv(perThread(), maxPerThread))
	if ctas <= 1 {
		return 0, 0
	}
	staging = accumulator * outputs * ctas
	if !onFastest {
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
