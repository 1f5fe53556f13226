package kernels

import "slices"

// atenConvs are the convolutions (aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp).
var atenConvs = []operator{
	{"convolution", on((*Kernels).convolution, 0, 1)},
	{"_convolution", on((*Kernels).convolution, 0, 1)},
	{"cudnn_convolution", on((*Kernels).convolution, 0, 1)},
	{"convolution_backward", on((*Kernels).convolutionBackward, 0, 1, 2)},
}

// A conv is a convolution's arguments, those of one dimension raised to two.
type conv struct {
	ConvShape
	x, w, g *Tensor
	raised  bool // runs as 2-D over a height of 1, in row-major order whatever its input's
}

// newConv reads the arguments from the stride on, which is argument i.
func newConv(c *Call, i int, x, w, y *Tensor) conv {
	v := conv{x: x, w: w, g: y, raised: len(x.Shape) == 3}
	stride, dilation := c.ints(i), c.ints(i+2)
	if v.raised {
		v.x, v.w, v.g = raise(x), raise(w), raise(y)
		stride, dilation = append([]int64{1}, stride...), append([]int64{1}, dilation...)
	}
	v.ConvShape = ConvShape{
		Elem: x.Elem, Float16: x.DType == "float16", X: v.x.Shape, W: v.w.Shape, Y: v.g.Shape, Stride: stride,
		Dilation:   dilation,
		Transposed: c.flag(i + 3), Groups: max(c.int(i+5), 1),
	}
	v.ChannelsLast = !v.raised && (x.ChannelsLast || w.ChannelsLast)
	return v
}

// raise is unsqueeze(2).
func raise(t *Tensor) *Tensor {
	if len(t.Shape) != 3 {
		return t
	}
	shape := slices.Insert(slices.Clone(t.Shape), 2, 1)
	stride := slices.Insert(slices.Clone(t.Stride), 2, t.Shape[2]*t.Stride[2])
	return NewTensor(t.DType, shape, stride, t.Host)
}

// convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups): cuDNN works in
// channels_last when the input or the weight suggests it. The input is copied by _convolution, the weight by
// cudnn_convolution_forward_out, which has the result already.
func (k *Kernels) convolution(c *Call) {
	x, w := c.tensor(0), c.tensor(1)
	if !c.has(0) {
		return
	}
	v := newConv(c, 3, x, w, c.result(0))
	l := lay(RowMajor)
	if v.ChannelsLast {
		l = ChannelsLast
	}
	k.dnnOn[k.thread] = true
	xi := k.copyTo(v.x, l)
	k.makes(0)
	wi := k.copyTo(v.w, l)
	k.convWorkspace(v.ConvShape, ConvForward)
	k.give(wi, xi)
}

// convWorkspace takes the workspace of a pass. It can be done without: see timeline.Event.Plan.
func (k *Kernels) convWorkspace(s ConvShape, pass ConvPass) {
	k.key = s.AppendKey(k.key[:0], pass)
	plan := k.plans[string(k.key)]
	if plan == 0 {
		p := s.Plan(pass, len(k.planned), k.device)
		bytes, answered := k.answers[string(k.key)]
		if answered {
			p.answered(bytes, k.device)
		}
		if found := k.searches[string(k.key)].found; found > p.Bytes {
			p.Most = max(p.Most, found)
			p.unsure = append(p.unsure, ConvChoice{Bytes: found, Chance: searchChance})
		}
		if p.Most > p.Bytes {
			p.Of = s.name(pass)
			p.weigh(k.surely(&s, answered))
		}
		k.planned = append(k.planned, p)
		plan = int32(len(k.planned))
		k.plans[string(k.key)] = plan
	}
	k.search(s, pass)
	p := &k.planned[plan-1]
	bytes := p.Bytes
	if p.Most > bytes {
		k.doubts |= OfEngines
		if k.atMost&OfEngines != 0 {
			bytes = p.Most
		}
	}
	if bytes > 0 {
		n := k.take(bytes)
		k.script[len(k.script)-1].Plan = plan
		k.give(n)
	}
}

// surely is how likely a workspace is that is not the one that is taken, by the share of the trees that name it.
func (k *Kernels) surely(s *ConvShape, answered bool) float64 {
	switch {
	case answered:
		return askedChance
	case s.byCuBLAS():
		return cuBLASChance
	case k.asked:
		return askedChance
	}
	return 1
}

// search has cuDNN search for the fastest engine of the pass with the key k.key, where it does.
func (k *Kernels) search(s ConvShape, pass ConvPass) {
	takes, does := k.searches[string(k.key)]
	of := search{k.thread, string(k.key)}
	if !does || k.searched[of] {
		return
	}
	k.searched[of] = true
	n := k.take(s.Search(pass, takes.offered))
	k.script[len(k.script)-1].Plan = searching
	k.give(n)
	k.script = append(k.script, Step{Do: Empty})
}

// convolutionBackward is convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, output_mask).
func (k *Kernels) convolutionBackward(c *Call) {
	g, x, w := c.tensor(0), c.tensor(1), c.tensor(2)
	v := newConv(c, 4, x, w, g)
	k.dnnOn[k.thread] = true
	var raised []int
	if v.raised { // "avoid accidentally going through NHWC for permuted 3d input" in convolution_backward
		raised = append(raised, k.copyTo(v.x, RowMajor))
		v.x = v.x.in(RowMajor)
	}
	switch {
	case v.Transposed:
		k.transposedBackward(c, v)
	case v.Depthwise() && !v.ChannelsLast && len(v.X) == 4 && !(v.Float16 && v.CuDNNDepthwise()):
		k.depthwiseBackward(c, v)
	default:
		k.denseBackward(c, v)
	}
	if c.has(2) {
		k.makes(2)
		dims := []int{0}
		for i := 2; i < len(g.Shape); i++ {
			dims = append(dims, i)
		}
		k.reduce(g, dims)
	}
	k.give(raised...)
}

// convLay is the order that cuDNN works in for two of a convolution's tensors (cudnn_conv_suggest_memory_format).
func convLay(a, b *Tensor) lay {
	if a.ChannelsLast || b.ChannelsLast {
		return ChannelsLast
	}
	return RowMajor
}

// denseBackward is cudnn_convolution_backward (cudnn/ConvShared.cpp): each of the two gradients makes a copy of a
// gradient that does not lie as cuDNN wants it.
func (k *Kernels) denseBackward(c *Call, v conv) {
	g, x, w := v.g, v.x, v.w
	var hold []int
	if c.has(1) { // input.contiguous(backend_memory_format)
		l := convLay(x, w)
		hold = append(hold, k.copyTo(x, l))
		x = x.in(l)
	}
	// grad_output.to(input.suggest_memory_format()), also of one channel, where only strides differ
	if g.ChannelsLast != x.ChannelsLast {
		hold = append(hold, k.take(g.Bytes()))
		g = NewTensor(g.DType, g.Shape, convLay(x, x)(g.Shape), false)
	}
	if c.has(0) {
		l := convLay(g, w)
		k.makes(0)
		wi, gi := k.copyTo(w, l), k.copyTo(g, l)
		k.convWorkspace(v.ConvShape, ConvBackwardInput)
		k.give(gi, wi)
	}
	if c.has(1) {
		l := convLay(x, g)
		gi, xi := k.copyTo(g, l), k.copyTo(x, l)
		k.makes(1)
		k.convWorkspace(v.ConvShape, ConvBackwardWeight)
		k.give(xi, gi)
	}
	k.giveBack(hold)
}

// depthwiseBackward is conv_depthwise2d_backward: the weight's gradient comes first.
func (k *Kernels) depthwiseBackward(c *Call, v conv) {
	for _, i := range []int{1, 0} {
		if c.has(i) {
			gi := k.copyTo(v.g, RowMajor)
			k.makes(i)
			k.give(gi)
		}
	}
}

// transposedBackward is cudnn_convolution_transpose_backward, which copies the gradient once.
func (k *Kernels) transposedBackward(c *Call, v conv) {
	l := convLay(v.x, v.x)
	gi := k.copyTo(v.g, l)
	if c.has(0) {
		k.makes(0)
		k.convWorkspace(v.ConvShape, ConvBackwardInput)
	}
	if c.has(1) {
		k.makes(1)
		k.convWorkspace(v.ConvShape, ConvBackwardWeight)
	}
	k.give(gi)
}
