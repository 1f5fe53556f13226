package kernels

import (
	"cmp"
	"slices"
	"strings"
)

// atenFFT are the Fourier transforms (aten/src/ATen/native/cuda/SpectralOps.cpp).
var atenFFT = []operator{
	{"_fft_r2c", on((*Kernels).fftR2C, 0)},
	{"_fft_c2c", on((*Kernels).fftC2C, 0)},
	{"_fft_c2r", on((*Kernels).fftC2R, 0)},
}

// maxFFT is how many dimensions cuFFT transforms at once.
const maxFFT = 3

// isOnePlan is use_optimized_cufft_path: whether one plan transforms reals in all these dimensions.
func isOnePlan(dims []int) bool {
	return len(dims) <= maxFFT && (len(dims) < 2 || dims[0] != 0 || dims[1] != 1)
}

// fftR2C is _fft_r2c(self, dim, normalization, onesided): of both sides the half is made where the whole will be.
func (k *Kernels) fftR2C(c *Call) {
	x, y := c.tensor(0), c.result(0)
	if y.Elements == 0 {
		return
	}
	dims := dimsAt(1)(c, x)
	if len(dims) == 0 || len(y.Shape) != len(x.Shape) {
		k.makes(0)
		return
	}
	half, last := y, dims[len(dims)-1:]
	bothSides := !c.flag(3)
	if bothSides {
		shape := slices.Clone(y.Shape)
		shape[last[0]] = shape[last[0]]/2 + 1
		half = NewTensor(y.DType, shape, RowMajor(shape), false)
	}
	if isOnePlan(dims) {
		k.makes(0)
		k.transform(x, half, dims)
		return
	}
	// The last one, then the others from one tensor to another, of which the first gets both sides.
	var other int
	if bothSides {
		k.makes(0)
		k.transform(x, half, last)
		other = k.take(y.Bytes())
	} else {
		other = k.take(y.Bytes())
		k.transform(x, half, last)
		k.makes(0)
	}
	for rest := dims[:len(dims)-1]; len(rest) > 0; rest = rest[:max(len(rest)-maxFFT, 0)] {
		k.transform(half, half, rest[max(len(rest)-maxFFT, 0):])
	}
	k.give(other)
}

// fftC2C is _fft_c2c(self, dim, normalization, forward): more dimensions than cuFFT takes go through another tensor.
func (k *Kernels) fftC2C(c *Call) {
	x := c.tensor(0)
	if len(c.ints(1)) == 0 { // a copy
		k.makes(0)
		return
	}
	k.complexFFT(x, dimsAt(1)(c, x), func() { k.makes(0) })
}

// complexFFT is it, of the dimensions by their strides, the innermost last.
func (k *Kernels) complexFFT(x *Tensor, dims []int, makes func()) {
	dims = slices.Clone(dims)
	slices.SortStableFunc(dims, func(a, b int) int { return cmp.Compare(x.Stride[b], x.Stride[a]) })
	before := -1
	if len(dims) > maxFFT {
		before = k.take(x.Bytes())
	}
	makes()
	for ; len(dims) > 0; dims = dims[:max(len(dims)-maxFFT, 0)] {
		k.transform(x, x, dims[max(len(dims)-maxFFT, 0):])
	}
	if before >= 0 {
		k.give(before)
	}
}

// fftC2R is _fft_c2r(self, dim, normalization, last_dim_size): of a copy, which the transform may write into, or of
// what the other dimensions' transforms made.
func (k *Kernels) fftC2R(c *Call) {
	x, y := c.tensor(0), c.result(0)
	k.makes(0)
	dims := dimsAt(1)(c, x)
	if len(dims) == 0 {
		return
	}
	temp := -1
	if others := len(dims) - 1; !isOnePlan(dims) {
		k.complexFFT(x, dims[:others], func() { temp = k.take(x.Bytes()) })
		dims = dims[others:]
	} else {
		temp = k.take(x.Bytes())
	}
	k.transform(x.in(RowMajor), y, dims)
	k.give(temp)
}

// transform is _exec_fft: the dimensions that are not transformed become one, which may take a copy, as may a layout
// that cuFFT can't read; then the plan runs. Plans stay in torch.backends.cuda.cufft_plan_cache without a work area:
// each run asks the allocator for one.
func (k *Kernels) transform(x, y *Tensor, dims []int) {
	p := fftPlan{elem: x.Elem, batch: 1}
	switch {
	case !strings.HasPrefix(x.DType, "complex"):
		p.kind, p.elem = realToComplex, 2*x.Elem
	case !strings.HasPrefix(y.DType, "complex"):
		p.kind = complexToReal
	}
	for i, n := range x.Shape {
		if !slices.Contains(dims, i) {
			p.batch = saturate(p.batch, n)
		}
	}
	for _, d := range dims {
		p.lengths = append(p.lengths, max(x.size(d), y.size(d), 1)) // one of them may have the half of it
	}
	copied := k.collapse(x, dims)
	if copied == 0 && !embeds(x, dims, p.elem) {
		copied = x.Bytes()
	}
	p.strided = copied == 0 && x.Stride[dims[len(dims)-1]] != 1
	before := k.take(copied)
	if likely, worst := p.workspace(false), p.workspace(true); likely == worst {
		k.scratch(likely)
	} else {
		k.give(k.guess(likely, worst))
	}
	k.give(before)
}

// embeds is as_cufft_embed of cuda/CuFFTPlanCache.h: whether each dimension's stride is a multiple of the next one's.
func embeds(x *Tensor, dims []int, elem int64) bool {
	apart := x.Stride[dims[len(dims)-1]]
	if apart <= 0 || elem < 8 && apart != 1 {
		return false
	}
	for i := len(dims) - 2; i >= 0; i-- {
		n, stride := x.Shape[dims[i]], x.Stride[dims[i]]
		if n == 1 {
			continue
		}
		if stride <= 0 || stride%apart != 0 {
			return false
		}
		apart = stride
	}
	for i, n := range x.Shape {
		if n > 1 && x.Stride[i] == 0 && !slices.Contains(dims, i) {
			return false
		}
	}
	return true
}

// collapse returns the bytes of the copy by which the dimensions that are not transformed become one.
func (k *Kernels) collapse(x *Tensor, dims []int) int64 {
	var batch []int
	for i, n := range x.Shape {
		if n > 1 && !slices.Contains(dims, i) {
			batch = append(batch, i)
		}
	}
	slices.SortStableFunc(batch, func(a, b int) int { return cmp.Compare(x.Stride[b], x.Stride[a]) })
	for i := 1; i < len(batch); i++ {
		inner := batch[i]
		if x.Stride[batch[i-1]] != saturate(x.Stride[inner], x.Shape[inner]) {
			return x.Bytes()
		}
	}
	return 0
}
