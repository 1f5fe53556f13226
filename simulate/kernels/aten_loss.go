package kernels

// atenLosses are the criteria (aten/src/ATen/native/Loss.cpp, cuda/Loss.cu, cuda/NLLLoss2d.cu).
var atenLosses = []operator{
	{"nll_loss_forward", nil},
	{"nll_loss_backward", nil},
	{"nll_loss2d_forward", func(k *Kernels, c *Call) { k.contiguous(c, 0, 1) }},
	{"nll_loss2d_backward", nil},
	{"mse_loss", keptLoss(2, (*Tensor).Bytes)},
	{"smooth_l1_loss", keptLoss(2, (*Tensor).Bytes)},
	{"mse_loss_backward", nil},
	{"smooth_l1_loss_backward", nil},
	{"huber_loss", (*Kernels).reducedLoss},
	{"huber_loss_backward", nil},
	{"binary_cross_entropy", keptLoss(3, func(t *Tensor) int64 { return t.Elem })},
	{"binary_cross_entropy_backward", nil},
	{"binary_cross_entropy_with_logits", on((*Kernels).logitsLoss, 0)},
	{"_ctc_loss_backward", nil},
}

// reductionNone is at::Reduction::None.
const reductionNone = 0

// contiguous makes the results, and for that row-major copies of these arguments.
func (k *Kernels) contiguous(c *Call, args ...int) {
	k.makesAll(c)
	var copies []int
	for _, i := range args {
		if t := c.tensor(i); t != nil {
			copies = append(copies, k.copyTo(t, RowMajor))
		}
	}
	k.give(copies...)
}

// reduced returns the first argument of a loss that is reduced as an argument says; of others it makes the result.
func (k *Kernels) reduced(c *Call, reduction int) *Tensor {
	x := c.tensor(0)
	if x == nil || len(c.Args) > reduction && c.int(reduction) == reductionNone {
		k.makes(0)
		return nil
	}
	return x
}

// keptLoss is a loss whose result keeps the storage that was made for one of the arguments' size. mse_loss(self,
// target, reduction) and smooth_l1_loss are first written into another tensor of that size, then averaged into the
// result (the structured kernels' meta functions in BinaryOps.cpp); binary_cross_entropy(self, target, weight,
// reduction) is made in it, and its mean beside.
func keptLoss(reduction int, beside func(t *Tensor) int64) func(*Kernels, *Call) {
	return func(k *Kernels, c *Call) {
		x := k.reduced(c, reduction)
		if x == nil {
			return
		}
		k.makesAs(0, x.Bytes())
		temp := k.take(beside(x))
		k.reduce(x, allDims(c, x))
		k.give(temp)
	}
}

// reducedLoss averages a tensor of the arguments' size.
func (k *Kernels) reducedLoss(c *Call) {
	x := k.reduced(c, 2)
	if x == nil {
		return
	}
	each := k.take(x.Bytes())
	k.makes(0)
	k.reduce(x, allDims(c, x))
	k.give(each)
}

// logitsLoss is binary_cross_entropy_with_logits: log_sigmoid(input) and (1 - target) * input - that.
func (k *Kernels) logitsLoss(c *Call) {
	x := c.tensor(0)
	a, b := k.take(x.Bytes()), k.take(x.Bytes())
	k.makes(0)
	if len(c.Args) < 5 || c.int(4) != reductionNone {
		k.reduce(x, allDims(c, x))
	}
	k.give(b, a)
}
