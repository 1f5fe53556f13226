package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
)

// Functions that models write as a torch.autograd.Function: they save what they say, and their backward is Python.

// runGeluFunction is the GELU of Megatron-LM, which BLOOM took over (bloom_gelu_forward and bloom_gelu_back in
// transformers):
//
//	x * 0.5 * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)))
//
// It saves its argument alone and computes the rest again.
func runGeluFunction(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	like := func() *tensor { return r.pointwise(x.dtype, x) }
	half := like()
	t := r.geluTanh(x)
	factor := like()
	r.release(t)
	out := like()
	r.release(half)
	r.release(factor)
	if r.needsGrad(x) {
		xc := *x
		r.record("GeLUFunction", one(out), one(x), one(x), func(r *run, n *node, g []*tensor) []*tensor {
			like := func() *tensor { return r.pointwise(xc.dtype, &xc) }
			step := func(used ...*tensor) *tensor { // the next term, made of these, which nothing else needs
				t := like()
				r.releaseAll(used)
				return t
			}
			tanh := r.geluTanh(&xc)
			half := like()                     // 0.5 * x
			slope := step(like())              // 1 - tanh * tanh
			inner := step(step(like()))        // 0.79788456 + 0.1070322243 * x * x
			product := step(slope, inner)      //
			left := step(half, product)        //
			ff := step(left, step(step()))     // + 0.5 * (1 + tanh)
			out := r.pointwise(xc.dtype, g[0]) // ff * grad
			r.releaseAll([]*tensor{ff, tanh})  // locals of the function
			return one(out)
		})
	}
	return one(out)
}

// geluTanh is tanh(0.79788456 * x * (1 + 0.044715 * x * x)).
func (r *run) geluTanh(x *tensor) *tensor {
	like := func() *tensor { return r.pointwise(x.dtype, x) }
	scaled, t := like(), like()
	for range 2 { // times x, plus one
		next := like()
		r.release(t)
		t = next
	}
	product := like()
	r.release(scaled)
	r.release(t)
	tanh := like()
	r.release(product)
	return tanh
}

// runStepFunction is (x > 0).float() with a surrogate gradient, as functions of spiking neurons have it (ATan of
// snnTorch, surrogate.py). It saves its argument, and its backward computes a slope of it in steps. Others save the
// result as well, or nothing: straight-through estimators return the gradient as it is.
func runStepFunction(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	mask := r.emptyLike(x, program.Bool)
	out := r.emptyLike(x, r.modelType(c.Args.DType))
	r.release(mask)
	if r.needsGrad(x) {
		xc := *x
		r.record("StepFunction", one(out), one(x), one(x), func(r *run, n *node, g []*tensor) []*tensor {
			grad := r.pointwise(xc.dtype, g[0]) // grad_output.clone()
			slope := r.pointwise(xc.dtype, &xc)
			for range 2 {
				next := r.pointwise(xc.dtype, &xc)
				r.release(slope)
				slope = next
			}
			out := r.pointwise(xc.dtype, grad, slope)
			r.releaseAll([]*tensor{grad, slope}) // locals of the function
			return one(out)
		})
	}
	return one(out)
}
