package kernels

import "strings"

// atenOthers take something of their own.
var atenOthers = []operator{
	{"native_dropout", func(k *Kernels, c *Call) { k.makes(1, 0) }}, // the mask is there first (cuda/Dropout.cu)
	{"roll", on((*Kernels).roll, 0)},                                // cuda/TensorTransformations.cu
	{"abs", (*Kernels).ofComplex},
	{"angle", (*Kernels).ofComplex},
	// The zero that forward derivatives have of what does not depend has no data (ZeroTensorAllocator).
	{"_efficientzerotensor", func(k *Kernels, c *Call) { k.leaves(0) }},
	{"_cdist_forward", (*Kernels).distances}, // Distance.cpp
	{"_cdist_backward", (*Kernels).distancesBackward},
}

// ofComplex is an operator whose result is real: of complex numbers it is made complex, and its real part copied
// (unary_op_impl_with_complex_to_float_out in aten/src/ATen/native/UnaryOps.cpp).
func (k *Kernels) ofComplex(c *Call) {
	k.makes(0)
	if x := c.tensor(0); x != nil && strings.HasPrefix(x.DType, "complex") {
		k.scratch(x.Elements * x.Elem)
	}
}

// roll is roll(self, shifts, dims): one dimension after the other, each into a tensor of its own (roll_common in
// aten/src/ATen/native/TensorTransformations.h). A tensor that is not row-major is copied.
func (k *Kernels) roll(c *Call) {
	x := c.tensor(0)
	var before []int
	for range len(c.ints(2)) - 1 {
		before = append(before, k.take(x.Bytes()))
	}
	k.makes(0)
	if len(before) == 0 {
		k.scratch(x.copied(RowMajor))
	}
	k.giveBack(before)
}

// distances is _cdist_forward(x1, x2, p, mode): of batches that are broadcast, and of what is not row-major, the
// kernel reads copies.
func (k *Kernels) distances(c *Call) {
	copies := k.batches(c, c.result(0), 0, 1)
	k.makes(0)
	k.give(copies...)
}

// distancesBackward is _cdist_backward(grad, x1, x2, p, cdist): each pair has a gradient of its own, which are summed
// over the rows of x2 (cdist_backward_kernel_impl of cuda/DistanceKernel.cu).
func (k *Kernels) distancesBackward(c *Call) {
	x, y, pairs := c.tensor(1), c.tensor(2), c.tensor(4)
	if x == nil || y == nil || pairs == nil || pairs.Elements == 0 {
		k.makes(0)
		return
	}
	copies := append(k.batches(c, pairs, 1, 2), k.copyTo(pairs, RowMajor))
	if g := c.tensor(0); g != nil {
		copies = append(copies, k.copyTo(g, RowMajor))
	}
	k.makes(0)
	rows, columns := x.size(-2), y.size(-2)
	shape := []int64{pairs.Elements / max(saturate(rows, columns), 1), columns, rows, x.size(-1)}
	each := NewTensor(x.DType, shape, RowMajor(shape), false)
	n := k.take(each.Bytes())
	k.reduce(each, []int{1})
	k.give(n)
	k.give(copies...)
}

// batches takes row-major copies of matrices, once for each batch of the pairs of their rows.
func (k *Kernels) batches(c *Call, pairs *Tensor, args ...int) (copies []int) {
	batch := int64(1)
	for i := range max(len(pairs.Shape)-2, 0) {
		batch = saturate(batch, pairs.Shape[i])
	}
	for _, i := range args {
		t := c.tensor(i)
		if t == nil || len(t.Shape) < 2 {
			continue
		}
		whole := saturate(batch, t.size(-2), t.size(-1))
		if whole == t.Elements && t.copied(RowMajor) == 0 {
			whole = 0
		}
		copies = append(copies, k.take(saturate(whole, t.Elem)))
	}
	return copies
}
