package eager

import (
	"encoding/binary"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// convOthers is for how many other choices of engines Run.Workspaces says what the workspaces would be.
const convOthers = 4

// A convPlan is what a run knows of the convolutions of one shape and pass.
type convPlan struct {
	bytes  int64             // the workspace
	others [convOthers]int64 // what it would be, had cuDNN chosen as one of the forest's trees that doubt does
}

// convWorkspace allocates and frees the workspace of a pass. It can be done without: when there is
// no memory for it, PyTorch asks cuDNN for its next plan, and keeps that for every convolution of the
// same shape (try_configs and the plan cache in aten/src/ATen/native/cudnn/Conv_v8.cpp). Which
// workspace the next plan has is not known; none is assumed.
func (r *run) convWorkspace(s ConvShape, pass ConvPass) {
	plan := r.plan(s, pass)
	bytes := r.planned[plan-1].bytes
	if bytes <= 0 {
		return
	}
	if bytes > maxBytes { // refused
		r.alloc(bytes, timeline.Workspace)
		return
	}
	block := r.log.Alloc(timeline.Request{Bytes: bytes, Layer: r.layer, Category: timeline.Workspace}, plan)
	r.log.Free(block, r.layer)
}

// plan numbers the plans of a run from 1: one for each shape and pass.
func (r *run) plan(s ConvShape, pass ConvPass) int32 {
	key := append(r.planKey[:0], byte(pass), flags(s.ChannelsLast, s.Transposed, s.Float16))
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
	r.planned = append(r.planned, s.planned(pass, len(r.planned)))
	id := int32(len(r.planned))
	r.plans[string(key)] = id
	return id
}

// planned works a plan out. Its index decides which doubting trees the other choices are taken from: each plan's from others, so
// that no choice is one tree's alone, and as often as the trees name them.
func (s ConvShape) planned(pass ConvPass, index int) (p convPlan) {
	w, ok := s.work(pass)
	if !ok || w.native() {
		return p
	}
	f := convForestOf(convForestFile, w.convKind())
	figures := w.features()
	leaves, n := f.leaves(&figures)
	if n == 0 {
		return p
	}
	p.bytes = w.most(f, leaves[:n+convDoubts])
	for k := range p.others {
		doubt := (3*index + k) % convDoubts
		p.others[k] = w.bytes(f.engine(int(leaves[n+doubt])))
	}
	return p
}

// others lists the workspaces by plan for each other choice that is not the same as what the run has. A
// convolution that takes none has none in any.
func (r *run) others() (all [][]int64) {
	for k := range convOthers {
		list, same := make([]int64, len(r.planned)), true
		for i := range r.planned {
			p := &r.planned[i]
			if p.bytes > 0 {
				list[i] = p.others[k]
			}
			same = same && list[i] == p.bytes
		}
		if !same {
			all = append(all, list)
		}
	}
	return all
}

func flags(set ...bool) (f byte) {
	for i, v := range set {
		if v {
			f |= 1 << i
		}
	}
	return f
}
