package eager

import (
	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/estimate/workspace"
)

// newConvShape describes a convolution of x with w to a result of that shape, in
// channels last or not.
func newConvShape(c *aten.Call, x, w *tensor, shape []int64, last bool) workspace.ConvShape {
	return workspace.ConvShape{Elem: x.dtype.Bits() / 8, Float16: x.dtype == aten.Float16, ChannelsLast: last, X: x.shape,
		W: w.shape, Y: shape,
		Stride: c.Args.Stride, Dilation: c.Args.Dilate, Groups: max(c.Args.Groups,
			1), Transposed: c.Args.Mode == "transposed"}
}

// convWorkspace allocates and frees the workspace of a pass. It can be done without: when there is
// no memory for it, PyTorch asks cuDNN for its next plan, and keeps that for every convolution of the
// same shape (try_configs and the plan cache in aten/src/ATen/native/cudnn/Conv_v8.cpp). Which
// workspace the next plan has is not known; none is assumed.
func (r *run) convWorkspace(s workspace.ConvShape, pass workspace.ConvPass) {
	if r.stopped() {
		return
	}
	plan := r.plan(s, pass)
	bytes := r.planned[plan-1].Bytes
	if bytes <= 0 {
		return
	}
	if bytes > aten.MaxBytes { // refused
		r.alloc(bytes, timeline.Workspace)
		return
	}
	block := r.log.Alloc(timeline.Request{Bytes: bytes, Layer: r.layer, Category: timeline.Workspace}, plan)
	r.log.Free(block, r.layer)
}

// plan numbers the plans of a run from 1: one for each shape and pass.
func (r *run) plan(s workspace.ConvShape, pass workspace.ConvPass) int32 {
	key := s.AppendKey(r.planKey[:0], pass)
	r.planKey = key
	if id := r.plans[string(key)]; id > 0 {
		return id
	}
	if r.plans == nil {
		r.plans = map[string]int32{}
	}
	r.planned = append(r.planned, s.Plan(pass, len(r.planned), *r.opts.GPU))
	id := int32(len(r.planned))
	r.plans[string(key)] = id
	return id
}
