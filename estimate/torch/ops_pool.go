package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// poolOps are the poolings and resamplings; Args.Shape is the result's.
var poolOps = []op{
	{"max_pool", castNone, runMaxPool},
	{"adaptive_max_pool", castNone, runMaxPool},
	{"max_unpool", castNone, runMaxUnpool}, // cuda/MaxUnpooling.cu
	{"avg_pool", castNone, resampling("AvgPool", keepsInput)},
	{"adaptive_avg_pool", castNone, runAdaptiveAvgPool},
	{"upsample", castFloat, resampling("Upsample", keepsNothing)},
	{"constant_pad", castNone, resampling("ConstantPadNd", keepsNothing)},
	{"reflection_pad", castNone, resampling("ReflectionPad", keepsInput)},
	{"pixel_shuffle", castNone, resampling("PixelShuffle", keepsNothing)},
	{"grid_sample", castPromote, runGridSample},
}

// spatialOut returns the output of a spatial operator in the input's memory format.
func (r *run) spatialOut(x *tensor, dtype program.DType, shape []int64) *tensor {
	if len(shape) == len(x.shape) && x.isChannelsLast() && !x.isContiguous() {
		return r.strided(dtype, shape, kernels.ChannelsLast(shape))
	}
	return r.empty(dtype, shape...)
}

// runMaxPool is max_pool_with_indices: int64 places are kept beside the values, in inference too, and returned where
// the program asks for them.
func runMaxPool(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.spatialOut(x, x.dtype, c.Args.Shape)
	places := r.spatialOut(x, program.Int64, c.Args.Shape)
	if r.needsGrad(x) {
		xc := *x
		r.record("MaxPool2DWithIndices", []*tensor{out, places}, one(x), []*tensor{x, places},
			func(r *run, n *node, g []*tensor) []*tensor {
				return one(r.emptyLike(&xc, xc.dtype))
			})
	}
	if len(c.Out) == 2 {
		return []*tensor{out, places}
	}
	r.release(places)
	return one(out)
}

// runMaxUnpool is max_unpool(self, places): zeros in rows, into which it writes. max_pool_double_backward(grad, places)
// gathers.
func runMaxUnpool(r *run, c *program.Call, in []*tensor) []*tensor {
	x, places := in[0], in[1]
	xi, pi := r.contiguous(x), r.contiguous(places)
	out := r.empty(x.dtype, c.Args.Shape...)
	r.release(xi)
	r.release(pi)
	if r.needsGrad(x) {
		shape, dtype := x.shape, x.dtype
		r.record("MaxUnpool", one(out), one(x), one(places), func(r *run, n *node, g []*tensor) []*tensor {
			gi := r.contiguous(g[0])
			t := r.empty(dtype, shape...)
			r.release(gi)
			return one(t)
		})
	}
	return one(out)
}

// resampling returns the rule of an operator from one grid to another whose backward makes
// one tensor of the input's size.
func resampling(name string, k keeps) func(*run, *program.Call, []*tensor) []*tensor {
	return func(r *run, c *program.Call, in []*tensor) []*tensor {
		x := in[0]
		out := r.spatialOut(x, x.dtype, c.Args.Shape)
		if r.needsGrad(x) {
			var saved []*tensor
			if k == keepsInput {
				saved = one(x)
			}
			xc := *x
			r.record(name, one(out), in[:1], saved, func(r *run, n *node, g []*tensor) []*tensor {
				return one(r.emptyLike(&xc, xc.dtype))
			})
		}
		return one(out)
	}
}

// runAdaptiveAvgPool is adaptive_avg_pool: to a single place it is a mean over the map, whose
// gradient is an expanded view divided by the count.
func runAdaptiveAvgPool(r *run, c *program.Call, in []*tensor) []*tensor {
	if program.Numel(c.Args.Shape[2:]) != 1 {
		return resampling("AdaptiveAvgPool", keepsInput)(r, c, in)
	}
	x := in[0]
	var dims []int
	for i := 2; i < len(x.shape); i++ {
		dims = append(dims, i)
	}
	return one(r.mean(x, dims, true))
}

// runGridSample is grid_sample(input, grid).
func runGridSample(r *run, c *program.Call, in []*tensor) []*tensor {
	x, grid := in[0], in[1]
	out := r.empty(x.dtype, append([]int64{x.shape[0]}, c.Args.Shape[1:]...)...)
	if r.needsGrad(x, grid) {
		like := []tensor{*x, *grid}
		r.record("GridSampler", one(out), in[:2], in[:2], func(r *run, n *node, g []*tensor) []*tensor {
			return n.each(func(i int) *tensor { return r.emptyLike(&like[i], like[i].dtype) })
		})
	}
	return one(out)
}

// runIm2col is F.unfold. Both ways the kernel makes a tensor like its argument and resizes it: what
// is too small is replaced, what is too large keeps its storage.
func runIm2col(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.resized(x, append([]int64{x.shape[0]}, c.Args.Shape[1:]...))
	if r.needsGrad(x) {
		shape := x.shape
		r.record("Im2Col", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.resized(g[0], shape))
		})
	}
	return one(out)
}

// resized is empty_like(t).resize_(shape), while the kernel holds t row by row.
func (r *run) resized(t *tensor, shape []int64) *tensor {
	old := r.empty(t.dtype, t.shape...)
	rows := r.contiguous(t)
	defer r.release(rows)
	if program.BytesOf(program.Numel(shape), t.dtype) <= old.st.bytes {
		old.layout = r.layouts.rowMajor(shape)
		return old
	}
	out := r.empty(t.dtype, shape...)
	r.release(old)
	return out
}
