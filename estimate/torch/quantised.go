package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Weights as bitsandbytes 0.49 stores and multiplies them. Nothing here was measured.

// Sizes of its 4-bit format (quantize_4bit of bitsandbytes/functional.py).
const (
	nf4Block    = 64   // elements that share a scale
	nf4Scales   = 256  // scales that share one of theirs
	nf4Code     = 64   // bytes of the table of 16 values
	nf4CodeByte = 1024 // bytes of the table for the scales
)

// quantise is Params4bit.to("cuda") and Int8Params.to("cuda"): the weight is there in 16 or 32 bits until its parts
// are.
func (r *run) quantise(t *tensor, stored program.Storage) {
	weight, n := t.st, t.numel()
	weight.bytes = t.bytes()
	part := func(bytes int64) *storage {
		s := r.alloc(bytes, timeline.Parameter)
		s.state, s.parameter = true, weight.parameter
		return s
	}
	switch stored {
	case program.NF4:
		t.st = part((n + 1) / 2)
		scales := (n + nf4Block - 1) / nf4Block
		absmax := r.alloc(4*scales, timeline.Temporary)
		part(nf4Code)
		part(512)                                     // the offset, a number
		less := r.alloc(4*scales, timeline.Temporary) // absmax - offset
		part(scales)
		part(4 * ((scales + nf4Scales - 1) / nf4Scales))
		part(nf4CodeByte)
		r.drop(absmax)
		r.drop(less)
	default:
		t.st = part(n) // CB
		part(4 * t.shape[0])
	}
	t.st.stored = stored
	r.drop(weight)
}

// linearPacked is Linear4bit.forward or Linear8bitLt.forward: what comes in is cast to the type that the layer
// computes in, and its result back.
func (r *run) linearPacked(x, w, b *tensor) *tensor {
	from, to := x.dtype, r.computes()
	if b != nil {
		b = r.to(b, to)
		defer r.release(b)
	}
	a := r.to(x, to)
	out := r.productPacked(a, w, b)
	r.release(a)
	back := r.to(out, from)
	r.release(out)
	return back
}

// productPacked is MatMul4Bit or MatMul8bitLt, a function of its own to autograd
// (bitsandbytes/autograd/_functions.py). The first saves nothing; the second keeps its argument. Neither has a
// gradient for the weight.
func (r *run) productPacked(a, w, b *tensor) *tensor {
	shape := append(slices.Clone(a.shape[:len(a.shape)-1]), w.shape[0])
	var out *tensor
	if w.st.stored == program.LLMInt8 {
		out = r.productInt8(a, shape)
	} else {
		weight := r.dequantised(w, a.dtype)
		out = r.empty(a.dtype, shape...)
		r.useBLAS(false)
		r.release(weight)
	}
	if !r.needsGrad(a) {
		return out
	}
	var saved []*tensor
	if w.st.stored == program.LLMInt8 {
		saved = one(a)
	}
	like, weight := a.operand(), *w
	r.record("MatMulPacked", one(out), []*tensor{a}, saved, func(r *run, n *node, g []*tensor) []*tensor {
		wide := r.dequantised(&weight, g[0].dtype)
		x := r.empty(g[0].dtype, like.shape...)
		r.useBLAS(false)
		r.release(wide)
		return one(x)
	})
	return out
}

// dequantised is the weight in a type to multiply with: dequantize_4bit, whose scales are float32 first, or CB times
// SCB.
func (r *run) dequantised(w *tensor, dtype program.DType) *tensor {
	if w.st.stored == program.LLMInt8 {
		return r.empty(dtype, w.shape...)
	}
	absmax := r.alloc(4*((w.numel()+nf4Block-1)/nf4Block), timeline.Temporary)
	out := r.empty(dtype, w.shape...)
	r.drop(absmax)
	return out
}

// productInt8 is the forward pass of MatMul8bitLt: the argument in float16, then in 8 bits with a scale a row, the
// product in 32 bits, that in float16 and in the argument's type.
func (r *run) productInt8(a *tensor, shape []int64) *tensor {
	half := r.to(a, program.Float16)
	rows := program.Numel(shape[:len(shape)-1])
	ca, sca := r.alloc(a.numel(), timeline.Temporary), r.alloc(4*rows, timeline.Temporary)
	r.release(half)
	sum := r.alloc(4*program.Numel(shape), timeline.Temporary)
	product := r.empty(program.Float16, shape...)
	r.drop(sum)
	out := r.to(product, a.dtype)
	for _, s := range []*storage{ca, sca} {
		r.drop(s)
	}
	r.release(product)
	return out
}
