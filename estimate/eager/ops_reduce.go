package eager

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// reduceOps are the reductions over Args.Dims, all dimensions where there are none.
var reduceOps = []op{
	{"mean", castNone, func(r *run, c *Call, in []*tensor) []*tensor { return one(r.mean(in[0], c.Args.Dims, c.Args.Keep)) }},
	{"sum", castFloat, runSum},
	{"amax", castNone, runAmax},
	{"norm", castFloat, runNorm},
	{"max_dim", castNone, runMaxDim},
	{"argmax", castNone, runArgmax},
	{"cumsum", castFloat, runCumsum},
	{"topk", castNone, runTopK},
}

// unreduced returns g, the gradient of a reduction of a tensor of this shape, as a view
// expanded over the reduced dimensions.
func (r *run) unreduced(g *tensor, shape []int64, dims []int, keep bool) *tensor {
	stride := make([]int64, len(shape))
	j := 0
	for i := range shape {
		reduced := len(dims) == 0 || slices.Contains(dims, i)
		if !reduced {
			stride[i] = g.stride[j]
		}
		if !reduced || keep {
			j++
		}
	}
	return r.alias(g, shape, stride)
}

// mean saves nothing; its backward divides the expanded gradient by the count.
func (r *run) mean(x *tensor, dims []int, keep bool) *tensor {
	out := r.reduce(x, dims, keep, x.dtype)
	if r.needsGrad(x) {
		shape := x.shape
		r.record("Mean", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			e := r.unreduced(g[0], shape, dims, keep)
			t := r.pointwise(e.dtype, e)
			r.release(e)
			return one(t)
		})
	}
	return out
}

// runSum is sum: its backward is a view.
func runSum(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	dims, keep := c.Args.Dims, c.Args.Keep
	out := r.reduce(x, dims, keep, x.dtype)
	if r.needsGrad(x) {
		shape := x.shape
		r.record("Sum", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.unreduced(g[0], shape, dims, keep))
		})
	}
	return one(out)
}

// runAmax is amax or amin: the gradient is shared among the places that equal the result
// (scale_grad_by_count).
func runAmax(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	dims := c.Args.Dims
	out := r.reduce(x, dims, c.Args.Keep, x.dtype)
	if r.needsGrad(x) {
		xc := *x
		r.record("Amax", one(out), one(x), []*tensor{x, out}, func(r *run, n *node, g []*tensor) []*tensor {
			mask := r.pointwise(onnxload.Bool, &xc)
			count := r.reduce(mask, dims, true, onnxload.Int64)
			t := r.pointwise(xc.dtype, &xc)
			r.release(count)
			r.release(mask)
			return one(t)
		})
	}
	return one(out)
}

// runNorm is linalg.vector_norm of order 2: self * (grad / norm), masked where the norm is 0.
func runNorm(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.reduce(x, c.Args.Dims, c.Args.Keep, x.dtype)
	if r.needsGrad(x) {
		xc, oc := *x, *out
		r.record("LinalgVectorNorm", one(out), one(x), []*tensor{x, out}, func(r *run, n *node, g []*tensor) []*tensor {
			a := r.pointwise(xc.dtype, &xc)
			mask := r.pointwise(onnxload.Bool, &oc)
			t := r.pointwise(xc.dtype, &xc)
			r.release(mask)
			r.release(a)
			return one(t)
		})
	}
	return one(out)
}

// runMaxDim is max(dim): values and int64 places; backward scatters into zeros.
func runMaxDim(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	shape := reducedShape(x.shape, c.Args.Dims, c.Args.Keep)
	out, places := r.empty(x.dtype, shape...), r.empty(onnxload.Int64, shape...)
	r.scatterGrad("Max", out, places, x)
	return []*tensor{out, places}
}

// scatterGrad records an operator that picked the elements of x at places.
func (r *run) scatterGrad(name string, out, places, x *tensor) {
	if r.needsGrad(x) {
		shape, dtype := x.shape, x.dtype
		r.record(name, []*tensor{out, places}, one(x), one(places), func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.empty(dtype, shape...))
		})
	}
}

func reducedShape(shape []int64, dims []int, keep bool) []int64 {
	var out []int64
	for i, n := range shape {
		switch {
		case len(dims) > 0 && !slices.Contains(dims, i):
			out = append(out, n)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// runArgmax gives int64 places.
func runArgmax(r *run, c *Call, in []*tensor) []*tensor {
	return one(r.empty(onnxload.Int64, reducedShape(in[0].shape, c.Args.Dims, c.Args.Keep)...))
}

// runCumsum is cumsum: flip, cumsum, flip in backward.
func runCumsum(r *run, c *Call, in []*tensor) []*tensor {
	if !in[0].dtype.IsFloat() {
		return one(r.empty(onnxload.Int64, in[0].shape...))
	}
	return unary("Cumsum", keepsNothing, 3)(r, &Call{}, in[:1])
}

// runTopK is topk: Args.Shape values and int64 places.
func runTopK(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	out, places := r.empty(x.dtype, c.Args.Shape...), r.empty(onnxload.Int64, c.Args.Shape...)
	r.scatterGrad("Topk", out, places, x)
	return []*tensor{out, places}
}
