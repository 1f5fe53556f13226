package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// reduceOps are the reductions over Args.Dims, all dimensions where there are none.
var reduceOps = []op{
	{"mean", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor {
		return one(r.mean(in[0], c.Args.Dims, c.Args.Keep))
	}},
	{"sum", castResult, runSum},
	{"amax", castNone, runAmax},
	{"norm", castResult, runNorm},
	{"max_dim", castNone, runMaxDim},
	{"argmax", castNone, runArgmax},
	{"cumsum", castResult, runCumsum},
	{"topk", castNone, runTopK},
	{"var", castNone, runVar("Var")},
	{"std", castNone, runVar("Std")},
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
func runSum(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	dims, keep := c.Args.Dims, c.Args.Keep
	out := r.reduce(x, dims, keep, r.resultType(x))
	if r.needsGrad(x) {
		shape := x.shape
		r.record("Sum", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.unreduced(g[0], shape, dims, keep))
		})
	}
	return one(out)
}

// runAmax is amax or amin, or max() without dimensions: the gradient is shared among the
// places that equal the result (scale_grad_by_count, evenly_distribute_backward).
func runAmax(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	dims := c.Args.Dims
	out := r.reduce(x, dims, c.Args.Keep, x.dtype)
	if r.needsGrad(x) {
		xc := *x
		r.record("Amax", one(out), one(x), []*tensor{x, out}, func(r *run, n *node, g []*tensor) []*tensor {
			var nan, nanResult *tensor
			if len(dims) == 0 { // evenly_distribute_backward looks for NaNs first
				nan, nanResult = r.pointwise(program.Bool, &xc), r.empty(program.Bool)
			}
			mask := r.pointwise(program.Bool, &xc)
			count := r.reduce(mask, dims, true, program.Int64)
			share := r.pointwise(xc.dtype, count)
			t := r.pointwise(xc.dtype, &xc)
			for _, x := range []*tensor{share, count, mask, nanResult, nan} {
				r.release(x)
			}
			return one(t)
		})
	}
	return one(out)
}

// runNorm is linalg.vector_norm of order 2: self * (grad / norm), masked where the norm is 0.
func runNorm(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.reduce(x, c.Args.Dims, c.Args.Keep, r.resultType(x))
	if r.needsGrad(x) {
		xc, oc := *x, *out
		r.record("LinalgVectorNorm", one(out), one(x), []*tensor{x, out}, func(r *run, n *node, g []*tensor) []*tensor {
			a := r.pointwise(xc.dtype, &xc)
			mask := r.pointwise(program.Bool, &oc)
			t := r.pointwise(xc.dtype, &xc)
			r.release(mask)
			r.release(a)
			return one(t)
		})
	}
	return one(out)
}

// runMaxDim is max(dim): values and int64 places; backward scatters into zeros.
func runMaxDim(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	shape := reducedShape(x.shape, c.Args.Dims, c.Args.Keep)
	out, places := r.empty(x.dtype, shape...), r.empty(program.Int64, shape...)
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
func runArgmax(r *run, c *program.Call, in []*tensor) []*tensor {
	return one(r.empty(program.Int64, reducedShape(in[0].shape, c.Args.Dims, c.Args.Keep)...))
}

// runCumsum is cumsum. Autocast asks it for a float32 result, which it computes from a copy of that type
// (impl_func_cumsum in aten/src/ATen/native/ReduceOps.cpp); backward turns the gradient to the argument's type first
// and then makes grad.flip(dim).cumsum(dim).flip(dim).
func runCumsum(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	if !x.dtype.IsFloat() {
		return one(r.empty(program.Int64, x.shape...))
	}
	out := r.pointwise(r.resultType(x), x)
	if out.dtype != x.dtype {
		r.release(r.emptyLike(x, out.dtype))
	}
	if r.needsGrad(x) {
		from := x.dtype
		r.record("Cumsum", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			grad := r.to(g[0], from)
			t := r.chain(3, grad)
			r.release(grad)
			return one(t)
		})
	}
	return one(out)
}

// runTopK is topk: Args.Shape values and int64 places.
func runTopK(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out, places := r.empty(x.dtype, c.Args.Shape...), r.empty(program.Int64, c.Args.Shape...)
	r.scatterGrad("Topk", out, places, x)
	return []*tensor{out, places}
}

// runVar returns the rule of var or std over Args.Dims. The gradient is a product of the
// scaled gradient and the deviation from the mean (var_backward); std first divides by twice the
// result, masked where that is 0 (std_backward).
func runVar(name string) func(*run, *program.Call, []*tensor) []*tensor {
	return func(r *run, c *program.Call, in []*tensor) []*tensor {
		x, dims, keep := in[0], c.Args.Dims, c.Args.Keep
		out := r.reduce(x, dims, keep, x.dtype)
		if !r.needsGrad(x) {
			return one(out)
		}
		saved := one(x)
		if name == "Std" {
			saved = append(saved, out)
		}
		xc, oc := *x, *out
		r.record(name, one(out), one(x), saved, func(r *run, n *node, g []*tensor) []*tensor {
			grad := g[0].retain()
			if name == "Std" {
				twice := r.pointwise(oc.dtype, &oc)
				q := r.pointwise(oc.dtype, g[0], twice)
				zero := r.pointwise(program.Bool, &oc)
				r.release(zero)
				r.release(twice)
				r.release(grad)
				grad = q
			}
			mean := r.reduce(&xc, dims, true, xc.dtype)
			deviation := r.pointwise(xc.dtype, &xc)
			scaled := r.pointwise(grad.dtype, grad)
			t := r.pointwise(xc.dtype, &xc)
			for _, x := range []*tensor{scaled, deviation, mean, grad} {
				r.release(x)
			}
			return one(t)
		})
		return one(out)
	}
}
