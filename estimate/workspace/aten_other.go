package workspace

import "slices"

// atenOthers take something of their own.
var atenOthers = []operator{
	{"native_dropout", func(k *Kernels, c *Call) { k.makes(1, 0) }}, // the mask is there first (cuda/Dropout.cu)
	{"roll", (*Kernels).roll}, // cuda/TensorTransformations.cu
	// The zero that forward derivatives have of what does not depend has no data (ZeroTensorAllocator).
	{"_efficientzerotensor", func(k *Kernels, c *Call) { k.leaves(0) }},
}

// roll is roll(self, shifts, dims): one dimension after the other, each into a tensor of its own (roll_common in
// aten/src/ATen/native/TensorTransformations.h). A tensor that is not row-major is copied.
func (k *Kernels) roll(c *Call) {
	x := c.tensor(0)
	if x == nil {
		return
	}
	var before []int
	for range len(c.ints(2)) - 1 {
		before = append(before, k.take(x.Bytes()))
	}
	k.makes(0)
	if len(before) == 0 {
		k.scratch(x.copied(RowMajor))
	}
	slices.Reverse(before)
	k.give(before...)
}
