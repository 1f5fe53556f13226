package eager

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// convOps are the convolutions (aten/src/ATen/native/Convolution.cpp, cudnn/ConvShared.cpp).
var convOps = []op{
	{"conv", castLower, runConv},           // conv1d, conv2d, conv3d
	{"conv_transpose", castLower, runConv}, // Args.Mode "transposed"
}

// runConv is a convolution of [N, C, spatial...] with a weight; Args.Shape is the result's.
func runConv(r *run, c *Call, in []*tensor) []*tensor {
	x, w := in[0], in[1]
	var bias *tensor
	if len(in) > 2 {
		bias = in[2]
	}
	if len(x.shape) == 3 { // conv1d runs as conv2d over a height of 1
		x4, w4 := r.unsqueeze(x, 2), r.unsqueeze(w, 2)
		flat := *c
		flat.Args.Stride, flat.Args.Dilate = append([]int64{1}, c.Args.Stride...), append([]int64{1}, c.Args.Dilate...)
		shape := slices.Insert(slices.Clone(c.Args.Shape), 2, 1)
		y := r.conv(&flat, x4, w4, bias, shape)
		out := r.squeeze(y, 2)
		for _, t := range []*tensor{x4, w4, y} {
			r.release(t)
		}
		return one(out)
	}
	return one(r.conv(c, x, w, bias, c.Args.Shape))
}

func (r *run) conv(c *Call, x, w, bias *tensor, shape []int64) *tensor {
	shape = slices.Clone(shape)
	shape[0] = x.shape[0]
	// cuDNN works in channels_last when the input or the weight suggests it; the
	// native depthwise kernel, for row-major float32 and bfloat16, needs no workspace.
	last := x.isChannelsLast() && !x.isContiguous() || w.isChannelsLast() && !w.isContiguous()
	layout := contiguousStrides
	if last {
		layout = channelsLastStrides
	}
	xi, wi := r.inLayout(x, layout), r.inLayout(w, layout)
	out := r.strided(x.dtype, shape, layout(shape))
	k := newConvShape(c, x, w, shape, last)
	r.dnn[r.thread()] = true
	r.convWorkspace(k, convForward)
	r.release(xi)
	r.release(wi)
	if !r.needsGrad(x, w, bias) {
		return out
	}
	xc, wc := *x, *w
	r.record("Convolution", one(out), []*tensor{x, w, bias}, []*tensor{x, w}, func(r *run, n *node, g []*tensor) []*tensor {
		gi := r.inLayout(g[0], layout)
		r.dnn[r.thread()] = true
		outs := make([]*tensor, 3)
		native := k.depthwise() && !last && len(k.X) == 4 && !(xc.dtype == onnxload.Float16 && k.cudnnDepthwise())
		if n.wants(0) && !native {
			outs[0] = r.strided(xc.dtype, xc.shape, layout(xc.shape))
			r.convWorkspace(k, convBackwardInput)
		}
		if n.wants(1) {
			outs[1] = r.strided(wc.dtype, wc.shape, layout(wc.shape))
			r.convWorkspace(k, convBackwardWeight)
		}
		if n.wants(0) && native { // conv_depthwise2d_backward makes the weight's gradient first
			outs[0] = r.strided(xc.dtype, xc.shape, layout(xc.shape))
		}
		if n.wants(2) {
			dims := []int{0}
			for i := 2; i < len(gi.shape); i++ {
				dims = append(dims, i)
			}
			outs[2] = r.reduce(gi, dims, false, gi.dtype)
		}
		r.release(gi)
		return outs
	})
	return out
}

// inLayout returns t in the strides that layout gives its shape: t itself where they are
// so already, as contiguous(memory_format) does, else a copy.
func (r *run) inLayout(t *tensor, layout func([]int64) []int64) *tensor {
	want := layout(t.shape)
	for i, n := range t.shape {
		if n != 1 && t.stride[i] != want[i] {
			return r.strided(t.dtype, t.shape, want)
		}
	}
	return t.retain()
}

// cudnnDepthwise reports whether a row-major depthwise convolution in float16 is left to cuDNN: square
// filters of 1, 3 or 5 without dilation, at stride 1, or at stride 2 for the sizes where it was found faster
// (use_cudnn_depthwise and check_cudnn_depthwise_workload_with_filter of Convolution.cpp).
func (s ConvShape) cudnnDepthwise() bool {
	filter, width, channels := s.W[3], s.X[3], s.X[1]
	at := func(list []int64, i int) int64 {
		if i < len(list) {
			return list[i]
		}
		return 1
	}
	stride := at(s.Stride, 1)
	switch {
	case at(s.Dilation, 0) != 1 || at(s.Dilation, 1) != 1 || channels < 32:
		return false
	case at(s.Stride, 0) != stride && s.X[2] != 1:
		return false
	case s.X[2] == 1 && stride == 1:
		return true
	case s.W[2] != filter || filter != 1 && filter != 3 && filter != 5 || width < 7:
		return false
	case stride == 1:
		return true
	case stride != 2:
		return false
	case s.X[0] == 1:
		return filter != 1 || width <= 28
	case filter == 1:
		return s.X[0] <= 16 && channels >= 128 && width <= 7
	}
	return channels >= 512 || channels >= 256 && width >= 28
}
