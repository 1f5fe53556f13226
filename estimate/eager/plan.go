package eager

import (
	"encoding/binary"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// planScratch allocates and frees the workspace of a convolution. It can be done without: when there is
// no memory for it, PyTorch asks cuDNN for its next plan, and keeps that for every convolution of the
// same shape (try_configs and the plan cache in aten/src/ATen/native/cudnn/Conv_v8.cpp). Which
// workspace the next plan has is not known; none is assumed.
func (r *run) planScratch(s ConvShape, d ConvPass, bytes int64) {
	if bytes <= 0 {
		return
	}
	st := r.alloc(bytes, timeline.Workspace)
	r.tl.Events[r.where[st.block]].Plan = r.plan(s, d)
	r.drop(st)
}

// plan numbers the plans of a run from 1: one for each shape and direction.
func (r *run) plan(s ConvShape, d ConvPass) int32 {
	key := append(r.planKey[:0], byte(d), flags(s.ChannelsLast, s.Transposed))
	key = binary.AppendVarint(key, s.Elem)
	key = binary.AppendVarint(key, s.Groups)
	for _, list := range [...][]int64{s.X, s.W, s.Y, s.Stride, s.Dilation} {
		key = binary.AppendVarint(key, int64(len(list)))
		for _, n := range list {
			key = binary.AppendVarint(key, n)
		}
	}
	r.planKey = key
	if id := r.plans[string(key)]; id > 0 {
		return id
	}
	if r.plans == nil {
		r.plans = map[string]int32{}
	}
	id := int32(len(r.plans) + 1)
	r.plans[string(key)] = id
	return id
}

func flags(a, b bool) (f byte) {
	if a {
		f |= 1
	}
	if b {
		f |= 2
	}
	return f
}
