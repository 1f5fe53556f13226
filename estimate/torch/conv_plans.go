package torch

import (
	"maps"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// newConvShape describes a convolution of x with w to a result of that shape, in
// channels last or not. One that was raised from three dimensions to four has another stride and dilation of 1.
func newConvShape(a *program.Args, x, w *layout, dtype program.DType, shape []int64, last, raised bool) kernels.ConvShape {
	k := kernels.ConvShape{Elem: dtype.Bits() / 8, Float16: dtype == program.Float16, ChannelsLast: last, X: x.shape,
		W: w.shape, Y: shape, Stride: a.Stride, Dilation: a.Dilate, Groups: max(a.Groups, 1),
		Transposed: a.Mode == "transposed"}
	if raised {
		k.Stride, k.Dilation = append([]int64{1}, a.Stride...), append([]int64{1}, a.Dilate...)
	}
	return k
}

// convWorkspace allocates and frees the workspace of a pass. It can be done without: when there is
// no memory for it, PyTorch asks cuDNN for its next plan, and keeps that for every convolution of the
// same shape (try_configs and the plan cache in aten/src/ATen/native/cudnn/Conv_v8.cpp). Which
// workspace the next plan has is not known; none is assumed.
func (r *run) convWorkspace(s kernels.ConvShape, pass kernels.ConvPass) {
	if r.stopped() {
		return
	}
	plan := r.plan(s, pass)
	bytes := r.plans.planned[plan-1].Bytes
	if r.opts.Benchmark {
		r.search(s, pass, r.plans.planned[plan-1].Most)
	}
	if bytes <= 0 {
		return
	}
	if bytes > program.MaxBytes { // refused
		r.alloc(bytes, timeline.Workspace)
		return
	}
	block := r.log.Alloc(timeline.Request{Bytes: bytes, Layer: r.layer, Category: timeline.Workspace}, plan)
	r.log.Free(block, r.layer)
}

// search has cuDNN search for the fastest engine of a pass when a thread first runs it, and gives all cached memory
// back then: see workspace.Kernels.Searched. Which engines it offers is not asked: those that copy all three operands
// are, and those that trees name.
func (r *run) search(s kernels.ConvShape, pass kernels.ConvPass, named int64) {
	of := searched{r.thread(), string(s.AppendKey(nil, pass))}
	if s.Depthwise() && !s.ChannelsLast || r.searched[of] {
		return
	}
	if r.searched == nil {
		r.searched = map[searched]bool{}
	}
	r.searched[of] = true
	bytes := min(s.Search(pass, max(named, s.Operands())), program.MaxBytes)
	block := r.log.Alloc(timeline.Request{Bytes: bytes, Layer: r.layer, Category: timeline.Workspace}, timeline.Searching)
	r.log.Free(block, r.layer)
	r.log.Release(r.layer)
}

// A searched is a pass that a thread searched the fastest engine of, by ConvShape.AppendKey.
type searched struct {
	thread int
	key    string
}

// plans are how cuDNN computes the convolutions of a run: one plan for each shape and pass, numbered from 1. The zero
// plans are none.
type plans struct {
	numbers map[string]int32   // by ConvShape.AppendKey
	planned []kernels.ConvPlan // by number less 1
	shared  bool               // with other runs: who adds a plan makes a copy first
}

// plan returns the number of the plan of a shape and pass.
func (r *run) plan(s kernels.ConvShape, pass kernels.ConvPass) int32 {
	p := &r.plans
	r.planKey = s.AppendKey(r.planKey[:0], pass)
	if number := p.numbers[string(r.planKey)]; number > 0 {
		return number
	}
	switch {
	case p.numbers == nil:
		p.numbers = map[string]int32{}
	case p.shared:
		*p = plans{numbers: maps.Clone(p.numbers), planned: slices.Clone(p.planned)}
	}
	p.planned = append(p.planned, s.Plan(pass, len(p.planned), *r.opts.GPU))
	number := int32(len(p.planned))
	p.numbers[string(r.planKey)] = number
	return number
}
