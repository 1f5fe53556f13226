package kernels

// atenNorms are the normalisations. Statistics are in float32 whatever the input is.
var atenNorms = []operator{
	{"cudnn_batch_norm", on((*Kernels).batchNorm, 0)},  // cudnn/BatchNorm.cpp
	{"native_batch_norm", on((*Kernels).batchNorm, 0)}, // cuda/Normalization.cu
	{"_native_batch_norm_legit", on((*Kernels).batchNorm, 0)},
	{"cudnn_batch_norm_backward", func(k *Kernels, c *Call) { k.batchNormBackward(c, 1, 0, true) }},
	{"native_batch_norm_backward", func(k *Kernels, c *Call) { k.batchNormBackward(c, 0, 1, c.flag(7)) }},
	{"native_layer_norm", on((*Kernels).ofCopy, 0)}, // cuda/layer_norm_kernel.cu
	{"_fused_rms_norm", on((*Kernels).ofCopy, 0)},
	{"native_layer_norm_backward", func(k *Kernels, c *Call) { k.layerNormBackward(c, 2) }},
	{"_fused_rms_norm_backward", func(k *Kernels, c *Call) { k.layerNormBackward(c, 1) }},
	{"native_group_norm", (*Kernels).groupNorm}, // cuda/group_norm_kernel.cu
	{"native_group_norm_backward", on((*Kernels).groupNormBackward, 0)},
	{"_weight_norm_interface", nil}, // cuda/WeightNorm.cu
	{"_weight_norm_interface_backward", on((*Kernels).ofCopy, 0)},
	{"batch_norm_stats", nil}, // of SyncBatchNorm
	{"batch_norm_elemt", nil},
	{"batch_norm_gather_stats_with_counts", nil},
	{"batch_norm_backward_reduce", nil},
	{"batch_norm_backward_elemt", nil},
}

// batchNorm is batch_norm(input, weight, bias, running_mean, running_var, training, ...).
func (k *Kernels) batchNorm(c *Call) {
	x := c.tensor(0)
	k.makesAll(c)
	if c.Op == "cudnn_batch_norm" {
		k.dnnOn[k.thread] = true
	}
	if x.ChannelsLast && !x.RowMajor && c.flag(5) {
		k.play(BatchNormChannelsLast(x.Elements, x.size(1), x.Elem, false))
	}
}

// batchNormBackward has the gradient and the input at these arguments.
func (k *Kernels) batchNormBackward(c *Call, gradient, input int, train bool) {
	g, x := c.tensor(gradient), c.tensor(input)
	if g == nil || x == nil {
		return
	}
	gi := k.copyTo(g, like(x))
	last := x.ChannelsLast && !x.RowMajor
	if train && last && x.Elem != 4 { // batch_norm_backward_reduce, then _elemt
		a, b := k.take(4*x.size(1)), k.take(4*x.size(1))
		k.makes(1, 2)
		k.play(BatchNormChannelsLast(x.Elements, x.size(1), x.Elem, true))
		k.makes(0)
		k.give(a, b)
	} else {
		k.makes(0, 1, 2)
		if last && train {
			k.play(BatchNormChannelsLast(x.Elements, x.size(1), x.Elem, true))
		}
	}
	k.give(gi)
}

// ofCopy copies a strided input for the kernel.
func (k *Kernels) ofCopy(c *Call) {
	x := c.tensor(0)
	xi := k.copyTo(x, RowMajor)
	k.makesAll(c)
	k.give(xi)
}

// layerNormBackward is native_layer_norm_backward(grad_out, input, normalized_shape, ...), or that of RMS norm, which
// keeps one statistic.
func (k *Kernels) layerNormBackward(c *Call, stats int) {
	g, x := c.tensor(0), c.tensor(1)
	if g == nil || x == nil {
		return
	}
	xi := k.copyTo(x, RowMajor)
	k.makesAll(c)
	gi := k.copyTo(g, RowMajor)
	if c.has(1) {
		n := saturate(c.ints(2)...)
		k.play(LayerNormBackward(x.Elements/max(n, 1), n, x.Elem, stats, k.device))
	}
	k.give(gi, xi)
}

// groupNorm is native_group_norm(input, weight, bias, N, C, HxW, group, eps).
func (k *Kernels) groupNorm(c *Call) {
	k.makesAll(c)
	k.play(GroupNorm(c.int(3), c.int(4)))
}

// groupNormBackward is native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask).
func (k *Kernels) groupNormBackward(c *Call) {
	g := c.tensor(0)
	gi := k.copyTo(g, RowMajor)
	k.makesAll(c)
	k.play(GroupNormBackward(c.int(5), c.int(6), c.int(8)))
	k.give(gi)
}
