package kernels

import "slices"

// atenFFT are the Fourier transforms (aten/src/ATen/native/cuda/SpectralOps.cpp).
var atenFFT = []operator{
	{"_fft_r2c", (*Kernels).fftR2C},
	{"_fft_c2c", (*Kernels).fftC2C},
	{"_fft_c2r", (*Kernels).fftC2R},
}

// maxFFT is how many dimensions cuFFT transforms at once.
const maxFFT = 3

// longestFFT is the longest signal that was seen to need no work area.
const longestFFT = 8192

// fftR2C is _fft_r2c(self, dim, normalization, onesided): of both sides the half is made first.
func (k *Kernels) fftR2C(c *Call) {
	x, y := c.tensor(0), c.result(0)
	if x == nil || y.Elements == 0 {
		return
	}
	dims := dimsAt(1)(c, x)
	half := y
	if !c.flag(3) && len(dims) > 0 && len(y.Shape) == len(x.Shape) {
		last := dims[len(dims)-1]
		shape := slices.Clone(y.Shape)
		shape[last] = shape[last]/2 + 1
		half = NewTensor(y.DType, shape, RowMajor(shape), false)
		n := k.take(half.Bytes())
		k.transform(x, half, dims)
		k.makes(0)
		k.give(n)
		return
	}
	k.makes(0)
	k.transform(x, half, dims)
}

// fftC2C is _fft_c2c(self, dim, normalization, forward): more dimensions than cuFFT takes go through another tensor.
func (k *Kernels) fftC2C(c *Call) {
	x := c.tensor(0)
	if x == nil {
		return
	}
	dims := dimsAt(1)(c, x)
	before := -1
	if len(dims) > maxFFT {
		before = k.take(x.Bytes())
	}
	k.makes(0)
	k.transform(x, x, dims)
	if before >= 0 {
		k.give(before)
	}
}

// fftC2R is _fft_c2r(self, dim, normalization, last_dim_size): of a copy, which the transform may write into.
func (k *Kernels) fftC2R(c *Call) {
	x, y := c.tensor(0), c.result(0)
	if x == nil {
		return
	}
	k.makes(0)
	temp := k.take(x.Bytes())
	whole := NewTensor(x.DType, y.Shape, RowMajor(y.Shape), false) // the signal as complex numbers
	k.transform(x.in(RowMajor), whole, dimsAt(1)(c, x))
	k.give(temp)
}

// transform is _exec_fft: the dimensions that are not transformed become one, which may take a copy; then the plan
// runs. What cuFFT takes is not published: its guide has "as low as" one and "in the worst case" eight times the
// signal in complex numbers, the latter where a length has a prime factor above 7 (Bluestein's algorithm). On an
// H200 (CUDA 13.0) it took nothing for lengths of 2, 3, 5 and 7 alone, which were 8192 at most, and once the
// smaller of input and output for 94 by 94.
func (k *Kernels) transform(x, signal *Tensor, dims []int) {
	copied := k.take(k.collapse(x, dims))
	elem := max(x.Elem, signal.Elem)
	bytes, copies := saturate(signal.Elements, elem), int64(2)
	likely := int64(0)
	for _, d := range dims {
		n := max(x.size(d), signal.size(d)) // one of them may have the half of it
		if n > longestFFT {
			likely = max(likely, bytes)
		}
		if largePrime(n) {
			likely = max(likely, saturate(min(x.Elements, signal.Elements), elem))
			copies = 8
		}
	}
	k.give(k.guess(likely, saturate(copies, bytes)))
	k.give(copied)
}

// collapse returns the bytes of the copy by which the dimensions that are not transformed become one.
func (k *Kernels) collapse(x *Tensor, dims []int) int64 {
	var batch []int
	for i, n := range x.Shape {
		if n > 1 && !slices.Contains(dims, i) {
			batch = append(batch, i)
		}
	}
	slices.SortStableFunc(batch, func(a, b int) int { return int(min(1, max(-1, x.Stride[b]-x.Stride[a]))) })
	for i := 1; i < len(batch); i++ {
		inner := batch[i]
		if x.Stride[batch[i-1]] != saturate(x.Stride[inner], x.Shape[inner]) {
			return x.Bytes()
		}
	}
	return 0
}

// largePrime is has_large_prime_factor.
func largePrime(n int64) bool {
	for _, p := range [...]int64{2, 3, 5, 7} {
		for n > 1 && n%p == 0 {
			n /= p
		}
	}
	return n > 1
}
