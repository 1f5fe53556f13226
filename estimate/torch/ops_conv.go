package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// convOps are the convolutions (aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp).
var convOps = []op{
	{"conv", castLower, runConv},           // conv1d, conv2d, conv3d
	{"conv_transpose", castLower, runConv}, // Args.Mode "transposed"
}

// runConv is a convolution of [N, C, spatial...] with a weight; Args.Shape is the result's.
func runConv(r *run, c *program.Call, in []*tensor) []*tensor {
	x, w := in[0], in[1]
	var bias *tensor
	if len(in) > 2 {
		bias = in[2]
	}
	if len(x.shape) == 3 { // conv1d runs as conv2d over a height of 1
		x4, w4 := r.unsqueeze(x, 2), r.unsqueeze(w, 2)
		shape := slices.Insert(slices.Clone(c.Args.Shape), 2, 1)
		y := r.conv(c.Args, x4, w4, bias, shape, true)
		out := r.squeeze(y, 2)
		for _, t := range []*tensor{x4, w4, y} {
			r.release(t)
		}
		return one(out)
	}
	return one(r.conv(c.Args, x, w, bias, c.Args.Shape, false))
}

// conv is convolution of four or five dimensions. One that was raised from three works in row-major order whatever its
// input's: "avoid accidentally going through NHWC for permuted 3d input" in _convolution and convolution_backward.
func (r *run) conv(a *program.Args, x, w, bias *tensor, shape []int64, raised bool) *tensor {
	shape = slices.Clone(shape)
	shape[0] = x.shape[0]
	// cuDNN works in channels_last when the input or the weight suggests it; the
	// native depthwise kernel, for row-major float32 and bfloat16, needs no workspace.
	last := !raised && (x.isChannelsLast() || w.isChannelsLast())
	layout := inRows
	if last {
		layout = inChannels
	}
	// The input is copied by _convolution, the weight by cudnn_convolution_forward_out and
	// cudnn_convolution_backward_input (cudnn/ConvShared.cpp), which have the result already.
	xi := r.inLayout(x, layout)
	out := r.laid(x.dtype, layout(&r.layouts, shape))
	wi := r.inLayout(w, layout)
	k := newConvShape(a, x.layout, w.layout, x.dtype, out.shape, last, raised)
	r.dnn[r.thread()] = true
	r.convWorkspace(k, kernels.ConvForward)
	r.release(wi)
	r.release(xi)
	if !r.needsGrad(x, w, bias) {
		return out
	}
	n := r.record("Convolution", one(out), []*tensor{x, w, bias}, []*tensor{x, w},
		func(r *run, n *node, g []*tensor) []*tensor {
			r.dnn[r.thread()] = true
			outs := make([]*tensor, 3)
			x, w := r.looks(0, n.like(0)), r.looks(1, n.like(1))
			k := newConvShape(a, x.layout, w.layout, x.dtype, n.out.shape, last, raised)
			if raised {
				own := x
				x = r.inLayout(x, inRows)
				defer r.releaseCopy(x, own)
			}
			switch {
			case k.Transposed:
				r.transposedBackward(n, outs, k, g[0], x, w)
			case k.Depthwise() && !last && len(k.X) == 4 && !(x.dtype == program.Float16 && k.CuDNNDepthwise()):
				r.depthwiseBackward(n, outs, g[0], x, w)
			default:
				r.convBackward(n, outs, k, g[0], x, w)
			}
			if n.wants(2) {
				dims := []int{0}
				for i := 2; i < len(g[0].shape); i++ {
					dims = append(dims, i)
				}
				outs[2] = r.reduce(g[0], dims, false, g[0].dtype)
			}
			return outs
		})
	n.know(0, x.operand())
	n.know(1, w.operand())
	return out
}

// convLayout is the layout that cuDNN works in for two of a convolution's tensors (cudnn_conv_suggest_memory_format).
func convLayout(a, b *tensor) arrangement {
	if a.isChannelsLast() || b.isChannelsLast() {
		return inChannels
	}
	return inRows
}

// convBackward is cudnn_convolution_backward (cudnn/ConvShared.cpp): each of the two gradients makes a copy of a
// gradient that does not lie as cuDNN wants it.
func (r *run) convBackward(n *node, outs []*tensor, k kernels.ConvShape, g, x, w *tensor) {
	if n.wants(1) { // input.contiguous(backend_memory_format)
		xi := r.inLayout(x, convLayout(x, w))
		defer r.releaseCopy(xi, x)
		x = xi
	}
	// grad_output.to(input.suggest_memory_format()), also of one channel, where only strides differ
	if g.isChannelsLast() != x.isChannelsLast() {
		gi := r.laid(g.dtype, convLayout(x, x)(&r.layouts, g.shape))
		defer r.releaseCopy(gi, g)
		g = gi
	}
	if n.wants(0) {
		layout := convLayout(g, w)
		outs[0] = r.laid(x.dtype, layout(&r.layouts, x.shape))
		wi, gi := r.inLayout(w, layout), r.inLayout(g, layout)
		r.convWorkspace(k, kernels.ConvBackwardInput)
		r.releaseCopy(gi, g)
		r.releaseCopy(wi, w)
	}
	if n.wants(1) {
		layout := convLayout(x, g)
		gi, xi := r.inLayout(g, layout), r.inLayout(x, layout)
		outs[1] = r.laid(w.dtype, layout(&r.layouts, w.shape))
		r.convWorkspace(k, kernels.ConvBackwardWeight)
		r.releaseCopy(xi, x)
		r.releaseCopy(gi, g)
	}
}

// depthwiseBackward is conv_depthwise2d_backward: the weight's gradient comes first.
func (r *run) depthwiseBackward(n *node, outs []*tensor, g, x, w *tensor) {
	for _, i := range []int{1, 0} {
		if n.wants(i) {
			gi := r.inLayout(g, inRows)
			like := []*tensor{x, w}[i]
			outs[i] = r.empty(like.dtype, like.shape...)
			r.releaseCopy(gi, g)
		}
	}
}

// transposedBackward is cudnn_convolution_transpose_backward, which copies the gradient once.
func (r *run) transposedBackward(n *node, outs []*tensor, k kernels.ConvShape, g, x, w *tensor) {
	gi := r.inLayout(g, convLayout(x, x))
	if n.wants(0) {
		outs[0] = r.laid(x.dtype, convLayout(gi, w)(&r.layouts, x.shape))
		r.convWorkspace(k, kernels.ConvBackwardInput)
	}
	if n.wants(1) {
		outs[1] = r.laid(w.dtype, convLayout(x, gi)(&r.layouts, w.shape))
		r.convWorkspace(k, kernels.ConvBackwardWeight)
	}
	r.releaseCopy(gi, g)
}

// releaseCopy drops what inLayout made of t. Rules hold what they saved by value, so that a reference of
// its own that inLayout took on one is only a count.
func (r *run) releaseCopy(copied, t *tensor) {
	if copied != t {
		r.release(copied)
	} else {
		t.refs--
	}
}

// copiedBytes returns the bytes of the copy that inLayout would make of t, 0 where it makes none.
func copiedBytes(t *tensor, layout arrangement, r *run) int64 {
	want := layout(&r.layouts, t.shape)
	for i, n := range t.shape {
		if n != 1 && t.stride[i] != want.stride[i] {
			return t.bytes()
		}
	}
	return 0
}

// inLayout returns t in the strides that layout gives its shape: t itself where they are
// so already, as contiguous(memory_format) does, else a copy.
func (r *run) inLayout(t *tensor, layout arrangement) *tensor {
	want := layout(&r.layouts, t.shape)
	for i, n := range t.shape {
		if n != 1 && t.stride[i] != want.stride[i] {
			return r.laid(t.dtype, want)
		}
	}
	return t.retain()
}
