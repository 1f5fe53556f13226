package torch

import "github.com/memestimate/memestimate/estimate/program"

// mathOps are the rarer operators of tensors: functions, reductions and compositions. Each formula is that of
// tools/autograd/derivatives.yaml; the temporaries of an expression live until it ends.
var mathOps = []op{
	{"acos", castFloat, unary("Acos", keepsInput, 6)},  // grad * -((-self * self + 1).rsqrt())
	{"asin", castFloat, unary("Asin", keepsInput, 5)},  // grad * (-self * self + 1).rsqrt()
	{"atan", castNone, unary("Atan", keepsInput, 3)},   // grad / (self * self + 1)
	{"sinh", castFloat, unary("Sinh", keepsInput, 2)},  // grad * self.cosh()
	{"cosh", castFloat, unary("Cosh", keepsInput, 2)},  // grad * self.sinh()
	{"tan", castFloat, unary("Tan", keepsResult, 3)},   // grad * (1 + result.pow(2))
	{"asinh", castNone, unary("Asinh", keepsInput, 4)}, // grad * (self.pow(2) + 1).rsqrt()
	{"acosh", castNone, unary("Acosh", keepsInput, 4)}, // grad * (self.pow(2) - 1).rsqrt()
	{"atanh", castNone, unary("Atanh", keepsInput, 4)}, // grad * 1 / (1 - self.pow(2))
	// hardshrink_backward(grad, self, lambd); softshrink likewise
	{"hardshrink", castNone, unary("Hardshrink", keepsInput, 1)},
	{"threshold", castNone, unary("Threshold", keepsInput, 1)}, // threshold_backward(grad, self, threshold)
	// log_sigmoid_backward(grad, self, buffer); no buffer on CUDA
	// cumprod_backward without zeros: reversed_cumsum(output * grad) / input
	{"cumprod", castFloat, unary("Cumprod", keepsInput, 4)},
	{"remainder", castNone, runRemainder},  // self: grad
	{"bitwise", castNone, runBitwise},      // integers: no gradient
	{"logsumexp", castFloat, runLogSumExp}, // logsumexp_backward
	{"prod", castResult, runProd},          // prod_backward
	{"norm1", castResult, runNorm1},        // norm_backward with p = 1
	{"roi_align", castFloat, runROIAlign},  // torchvision/csrc/ops/autograd/roi_align_kernel.cpp
	{"col2im", castNone, runIm2col},        // F.fold: cuda/Col2Im.cu resizes as Im2Col.cu does
	{"normalize", castNone, runNormalize},  // composed: self / norm.clamp_min(eps).expand_as(self)
	{"nll_loss", castNone, func(r *run, c *program.Call, in []*tensor) []*tensor { return one(r.nll(in[0], in[1])) }},
}

// runRemainder is remainder of floats or integers.
func runRemainder(r *run, c *program.Call, in []*tensor) []*tensor {
	x, y := in[0], in[1]
	out := r.binary(c, x, y)
	if r.needsGrad(x, y) {
		r.record("Remainder", one(out), in, one(y), func(r *run, n *node, g []*tensor) []*tensor {
			return n.otherFirst(func(i int) *tensor {
				if i == 0 {
					return g[0].retain()
				}
				return r.chain(3, g[0]) // -grad * self.div(other, "floor")
			})
		})
	}
	return one(out)
}

func runBitwise(r *run, c *program.Call, in []*tensor) []*tensor {
	return one(r.pointwise(promote(in...), in...))
}

// runLogSumExp is logsumexp over Args.Dims: the maximum, its copy without infinities, and the exponentials of
// the differences (aten/src/ATen/native/ReduceOps.cpp).
func runLogSumExp(r *run, c *program.Call, in []*tensor) []*tensor {
	x, dims, keep := in[0], c.Args.Dims, c.Args.Keep
	out := r.empty(x.dtype, reducedShape(x.shape, dims, keep)...)
	top := r.reduce(x, dims, true, x.dtype)
	size := r.pointwise(top.dtype, top)
	infinite := r.pointwise(program.Bool, top)
	r.release(infinite)
	r.release(size)
	exp := r.pointwise(x.dtype, x)
	r.reduceScratch(exp, dims)
	r.release(exp)
	r.release(top)
	if r.needsGrad(x) {
		xc := *x
		r.record("Logsumexp", one(out), one(x), []*tensor{x, out}, func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.chain(3, &xc)) // grad * (self - result).exp()
		})
	}
	return one(out)
}

// runProd is prod: where no element is 0, the gradient is grad * result / self. Looking for zeros takes a mask, and
// counting those along a dimension a tensor of their numbers (torch/csrc/autograd/FunctionsManual.cpp prod_backward).
func runProd(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.reduce(x, c.Args.Dims, c.Args.Keep, r.resultType(x))
	if r.needsGrad(x) {
		xc := *x
		r.record("Prod", one(out), one(x), []*tensor{x, out}, func(r *run, n *node, g []*tensor) []*tensor {
			zeros := r.pointwise(program.Bool, &xc)
			defer r.release(zeros)
			if len(c.Args.Dims) == 1 {
				defer r.release(r.reduce(zeros, c.Args.Dims, true, program.Int64))
			}
			product := r.pointwise(g[0].dtype, g[0])
			t := r.pointwise(xc.dtype, &xc)
			r.release(product)
			return one(t)
		})
	}
	return one(out)
}

// runNorm1 is linalg.vector_norm of order 1: self.sgn() * grad.
func runNorm1(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.reduce(x, c.Args.Dims, c.Args.Keep, r.resultType(x))
	if r.needsGrad(x) {
		xc := *x
		r.record("LinalgVectorNorm", one(out), one(x), one(x), func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.chain(2, &xc))
		})
	}
	return one(out)
}

// runROIAlign is torchvision.ops.roi_align(input, rois): the regions are saved, and the gradient is as large as
// the input.
func runROIAlign(r *run, c *program.Call, in []*tensor) []*tensor {
	x, rois := in[0], in[1]
	out := r.empty(x.dtype, append([]int64{rois.shape[0]}, c.Args.Shape[1:]...)...)
	if r.needsGrad(x) {
		shape := x.shape
		r.record("ROIAlign", one(out), one(x), one(rois), func(r *run, n *node, g []*tensor) []*tensor {
			return one(r.empty(g[0].dtype, shape...))
		})
	}
	return one(out)
}

// runNormalize is F.normalize over Args.Dims.
func runNormalize(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	norm := runNorm(r, &program.Call{Args: &program.Args{Dims: c.Args.Dims, Keep: true}}, one(x))[0]
	least := runClamp(r, program.PlainCall, one(norm))[0]
	wide := r.expand(least, x.shape)
	out := runDiv(r, program.PlainCall, []*tensor{x, wide})
	for _, t := range []*tensor{wide, least, norm} {
		r.release(t)
	}
	return out
}
