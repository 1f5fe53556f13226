package kernels

// atenLosses are the criteria (aten/src/ATen/native/Loss.cpp, cuda/Loss.cu, cuda/NLLLoss2d.cu).
var atenLosses = []operator{
	{"nll_loss_forward", nil},
	{"nll_loss_backward", nil},
	{"nll_loss2d_forward", func(k *Kernels, c *Call) { k.contiguous(c, 0, 1) }},
	{"nll_loss2d_backward", nil},
	{"mse_loss", (*Kernels).pointwiseLoss},
	{"smooth_l1_loss", (*Kernels).pointwiseLoss},
	{"mse_loss_backward", nil},
	{"smooth_l1_loss_backward", nil},
	{"huber_loss", (*Kernels).reducedLoss},
	{"huber_loss_backward", nil},
	{"binary_cross_entropy", (*Kernels).binaryCrossEntropy},
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

// pointwiseLoss is mse_loss(self, target, reduction) or smooth_l1_loss: the loss is first written into a tensor of the
// arguments' size, then averaged into the result, whose storage was made for that size too and keeps it (the
// structured kernels' meta functions in BinaryOps.cpp).
func (k *Kernels) pointwiseLoss(c *Call) {
	x := k.reduced(c, 2)
	if x == nil {
		return
	}
	k.makesAs(0, x.Bytes())
	each := k.take(x.Bytes())
	k.reduce(x, allDims(c, x))
	k.give(each)
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

// binaryCrossEntropy is binary_cross_entropy(self, target, weight, reduction): the result keeps the storage of a
// tensor of the arguments' size, in which the loss was made.
func (k *Kernels) binaryCrossEntropy(c *Call) {
	x := k.reduced(c, 3)
	if x == nil {
		return
	}
	k.makesAs(0, x.Bytes())
	mean := k.take(x.Elem)
	k.reduce(x, allDims(c, x))
	k.give(mean)
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
