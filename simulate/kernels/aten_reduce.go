package kernels

// atenReductions are the reductions (aten/src/ATen/native/ReduceOps.cpp, cuda/Reduce.cuh). Their results come first.
var atenReductions = []operator{
	{"sum.default", sumOf(allDims)},
	{"sum.dim_IntList", sumOf(dimsAt(1))},
	{"mean.default", reductionOf(allDims)},
	{"mean.dim", reductionOf(dimsAt(1))},
	{"prod.default", sumOf(allDims)},
	{"prod.dim_int", sumOf(dimsAt(1))},
	{"nansum", sumOf(dimsAt(1))},
	{"amax", reductionBy(plainAccumulator, dimsAt(1))},
	{"amin", reductionBy(plainAccumulator, dimsAt(1))},
	{"aminmax", reductionBy(pairAccumulator, dimsAt(1))},
	{"max.default", reductionBy(plainAccumulator, allDims)},
	{"min.default", reductionBy(plainAccumulator, allDims)},
	{"max.dim", reductionBy(placeAccumulator, dimsAt(1))},
	{"min.dim", reductionBy(placeAccumulator, dimsAt(1))},
	{"argmax", on((*Kernels).place, 0)},
	{"argmin", on((*Kernels).place, 0)},
	{"any", reductionBy(plainAccumulator, dimsAt(1))},
	{"all", reductionBy(plainAccumulator, dimsAt(1))},
	{"linalg_vector_norm", reductionOf(dimsAt(2))},
	{"norm.Scalar", reductionOf(allDims)},
	{"norm.ScalarOpt_dim", reductionOf(dimsAt(2))},
	{"var.correction", reductionBy(momentAccumulator, dimsAt(1))},
	{"std.correction", reductionBy(momentAccumulator, dimsAt(1))},
	{"var_mean.correction", reductionBy(momentAccumulator, dimsAt(1))},
	{"std_mean.correction", reductionBy(momentAccumulator, dimsAt(1))},
	{"count_nonzero", nil},
	{"logsumexp", on((*Kernels).logSumExp, 0)},
	{"_foreach_norm", (*Kernels).foreachNorm},
	{"_softmax", func(k *Kernels, c *Call) { k.contiguous(c, 0) }}, // row-major inside and out (cuda/SoftMax.cu)
	{"_log_softmax", func(k *Kernels, c *Call) { k.contiguous(c, 0) }},
	{"_softmax_backward_data", func(k *Kernels, c *Call) { k.softmaxBackward(c, true) }},
	{"_log_softmax_backward_data", func(k *Kernels, c *Call) { k.softmaxBackward(c, false) }},
	{"_safe_softmax", on((*Kernels).safeSoftmax, 0)},
	{"cumsum", on((*Kernels).scan, 0)},
	{"cumprod", on((*Kernels).scan, 0)},
	{"cumsum_", nil},
	{"cummax", on((*Kernels).scan, 0)},
	{"cummin", on((*Kernels).scan, 0)},
	{"logcumsumexp", on((*Kernels).scan, 0)},
}

// reductionOf reduces dimensions by sums.
func reductionOf(dims which) func(*Kernels, *Call) { return reductionBy(sumAccumulator, dims) }

// reductionBy reduces them by accumulators of another size: extremes compare as elements are, or with the place of
// each, moments have two and their counts (cuda/ReduceMaxValuesKernel.cu, ReduceArgMaxKernel.cu, ReduceLogicKernel.cu,
// ReduceMomentKernel.cu). The minimum of 16 x 2025 x 2048 floats over the middle took 576 MiB on an H200.
func reductionBy(accumulator func(int64) int64, dims which) func(*Kernels, *Call) {
	return func(k *Kernels, c *Call) {
		if x := c.tensor(0); x != nil {
			k.makesAll(c)
			k.reduceBy(accumulator, x, dims(c, x))
		}
	}
}

// place is argmax or argmin, without a dimension of all as they lie in a row (argmax_argmin_impl of
// native/ReduceOps.cpp).
func (k *Kernels) place(c *Call) {
	x := c.tensor(0)
	k.makes(0)
	if c.arg(1).Set {
		k.reduceBy(placeAccumulator, x, dimsAt(1)(c, x))
		return
	}
	flat := k.take(x.copied(RowMajor))
	row := NewTensor(x.DType, []int64{x.Elements}, []int64{1}, false)
	k.reduceBy(placeAccumulator, row, []int{0})
	k.give(flat)
}

// sumOf is a reduction that makes masks and integers int64 first.
func sumOf(dims which) func(*Kernels, *Call) {
	return func(k *Kernels, c *Call) {
		x := c.tensor(0)
		if x == nil {
			return
		}
		k.makes(0)
		if y := c.result(0); x.isInt() && x.DType != y.DType {
			wide := NewTensor(y.DType, x.Shape, x.Stride, false)
			n := k.take(wide.Bytes())
			k.reduce(wide, dims(c, x))
			k.give(n)
			return
		}
		k.reduce(x, dims(c, x))
	}
}

// logSumExp is logsumexp(self, dim, keepdim): the maximum, its copy without infinities, and the exponentials of the
// differences.
func (k *Kernels) logSumExp(c *Call) {
	x := c.tensor(0)
	dims := dimsAt(1)(c, x)
	k.makes(0)
	top := k.take(c.result(0).Bytes())
	k.reduce(x, dims)
	size := k.take(c.result(0).Bytes())
	infinite := k.take(c.result(0).Elements)
	k.give(infinite, size)
	exp := k.take(x.Bytes())
	k.reduce(x, dims)
	k.give(exp, top)
}

// foreachNorm keeps partial results for as many chunks as the largest tensor has.
func (k *Kernels) foreachNorm(c *Call) {
	largest, n := int64(0), int64(0)
	for _, a := range c.arg(0).List {
		if a.Tensor != nil {
			largest = max(largest, a.Tensor.Elements)
			n++
		}
	}
	partial := k.take(ForeachNorm(n, largest))
	k.makesAll(c)
	k.give(partial)
}

// softmaxBackward is _softmax_backward_data(grad_output, output, dim, input_dtype), which multiplies the two first, or
// that of log_softmax.
func (k *Kernels) softmaxBackward(c *Call, product bool) {
	g, y := c.tensor(0), c.tensor(1)
	if g == nil || y == nil {
		return
	}
	k.makes(0)
	if !product {
		k.play(SoftmaxBackward(0, g.copied(RowMajor)))
		return
	}
	t := &Tensor{}
	*t = *g
	if !g.Dense { // the product of an expanded gradient lies as the result does
		*t = *y
	}
	t = NewTensor(t.DType, t.Shape, t.Stride, false)
	k.play(SoftmaxBackward(saturate(y.Elements, max(g.Elem, y.Elem)), t.copied(RowMajor)))
}

// safeSoftmax is _safe_softmax, which looks for rows that are masked whole: composed in
// aten/src/ATen/native/transformers/attention.cpp.
func (k *Kernels) safeSoftmax(c *Call) {
	x := c.tensor(0)
	k.makes(0)
	k.scratch(x.copied(RowMajor))
	masked := k.take(x.Elements)
	rows := k.take(x.Elements / max(x.size(-1), 1))
	zero := k.take(x.Elem)
	k.give(zero, rows, masked)
}

// scan computes a wider result from a copy of that type (impl_func_cum_ops in aten/src/ATen/native/ReduceOps.cpp), which
// lies as its argument does, and reads it row by row (expect_contiguous in cuda/ScanUtils.cuh). The sum of 4 x 4 x 4096
// x 64 x 64 floats, a product whose dimensions einsum had permuted, took 1 GiB more than its result on an H200.
func (k *Kernels) scan(c *Call) {
	x, y := c.tensor(0), c.result(0)
	k.makesAll(c)
	var copies []int
	if x.DType != y.DType {
		copies = append(copies, k.take(y.Bytes()))
	}
	if !x.lies(RowMajor) {
		copies = append(copies, k.take(y.Bytes()))
	}
	k.give(copies...)
}
