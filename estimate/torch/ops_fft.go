package torch

import (
	"cmp"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// fftOps are Fourier transforms. A complex tensor is one of its real type with a last dimension of two.
var fftOps = []op{
	{"to_complex", castNone, runToComplex},
	{"fft", castNone, runFFT},
	{"fft_r2c", castNone, runFFTR2C},
	{"fft_c2r", castNone, runFFTC2R},
}

// runToComplex is to(complex64) of a real tensor. Its gradient is the real part of what comes, seen as it lies
// (_to_copy_backward in torch/csrc/autograd/FunctionsManual.cpp).
func runToComplex(r *run, c *program.Call, in []*tensor) []*tensor {
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
func runFFT(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	out := r.empty(x.dtype, x.shape...)
	if r.needsGrad(x) {
		r.record("FftC2C", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return r.alone(r.empty(g[0].dtype, g[0].shape...))
		})
	}
	return r.alone(out)
}

// runFFTR2C is _fft_r2c with one side of the spectrum, over all its dimensions at once. Its backward fills the other
// side with zeros and transforms it, of which the real part is the gradient (fft_r2c_backward). It is given the size of
// the last dimension, which derivatives.yaml writes as self.sym_size(dim.back()): its generator saves a size alone
// where the dimension is a number, and here the tensor.
func runFFTR2C(r *run, c *program.Call, in []*tensor) []*tensor {
	x, dims := in[0], c.Args.Dims
	out := r.spectrum(x, dims)
	if r.needsGrad(x) {
		shape := x.shape
		r.record("FftR2C", one(out), one(x), one(x), func(r *run, _ *node, g []*tensor) []*tensor {
			whole := append(slices.Clone(shape), 2)
			zeros := r.empty(g[0].dtype, whole...)
			back := r.complexAt(g[0].dtype, shape, transformed(shape, kernels.RowMajor(shape), dims))
			r.release(zeros)
			real := r.without(back, len(shape))
			r.release(back)
			return r.alone(real)
		})
	}
	return r.alone(out)
}

// runFFTC2R is _fft_c2r, of a copy, which the transform may write into. Its backward is _fft_r2c, whose doubled half it
// doubles in place (fft_c2r_backward); nothing is saved.
func runFFTC2R(r *run, c *program.Call, in []*tensor) []*tensor {
	x, dims, shape := in[0], c.Args.Dims, c.Args.Shape
	half := kernels.RowMajor(x.shape[:len(x.shape)-1])
	out := r.strided(x.dtype, shape, transformed(shape, half, dims))
	r.scratch(program.BytesOf(x.elements, x.dtype), r.category())
	if r.needsGrad(x) {
		r.record("FftC2R", one(out), one(x), nil, func(r *run, n *node, g []*tensor) []*tensor {
			return r.alone(r.spectrum(g[0], dims))
		})
	}
	return r.alone(out)
}

// spectrum makes one side of a real tensor's spectrum.
func (r *run) spectrum(x *tensor, dims []int) *tensor {
	half, last := slices.Clone(x.shape), dims[len(dims)-1]
	half[last] = half[last]/2 + 1
	return r.complexAt(x.dtype, half, transformed(half, x.stride, dims))
}

// complexAt makes a complex tensor of these strides in complex numbers.
func (r *run) complexAt(dtype program.DType, shape, stride []int64) *tensor {
	two := append(slices.Clone(stride), 1)
	for i := range stride {
		two[i] *= 2
	}
	return r.strided(dtype, append(slices.Clone(shape), 2), two)
}

// transformed returns the strides of what _exec_fft makes: the dimensions that it transforms are innermost, before them
// the others in the order of the argument's strides.
func transformed(shape, stride []int64, dims []int) []int64 {
	var order []int
	for i := range shape {
		if !slices.Contains(dims, i) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(stride[b], stride[a]) })
	order = append(order, dims...)
	out, step := make([]int64, len(shape)), int64(1)
	for _, d := range slices.Backward(order) {
		out[d] = step
		step *= max(shape[d], 1)
	}
	return out
}
