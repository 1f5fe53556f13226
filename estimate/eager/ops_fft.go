package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
)

// fftOps are Fourier transforms. A complex tensor is one of its real type with a last dimension of two.
var fftOps = []op{
	{"to_complex", castNone, runToComplex},
	{"fft", castNone, runFFT},
}

// runToComplex is to(complex64) of a real tensor. Its gradient is the real part of what comes, seen as it lies
// (_to_copy_backward in torch/csrc/autograd/FunctionsManual.cpp).
func runToComplex(r *run, c *aten.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.empty(x.dtype, append(slices.Clone(x.shape), 2)...)
	if r.needsGrad(x) {
		r.record("ToCopy", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return r.alone(r.without(g[0], len(g[0].shape)-1))
		})
	}
	return r.alone(out)
}

// runFFT is _fft_c2c, over all its dimensions at once (native/cuda/SpectralOps.cpp); so is its backward, and nothing
// is saved.
func runFFT(r *run, c *aten.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.empty(x.dtype, x.shape...)
	if r.needsGrad(x) {
		r.record("FftC2C", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return r.alone(r.empty(g[0].dtype, g[0].shape...))
		})
	}
	return r.alone(out)
}
