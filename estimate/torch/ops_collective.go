package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// collectiveOps are what ranks do together: functional collectives, whose results are tensors of their own
// (torch/csrc/distributed/c10d/Functional.cpp), and DTensor's redistribute around them
// (torch/distributed/tensor/_api.py, _redistribute.py).
var collectiveOps = []op{
	{"all_reduce", castNone, func(r *run, _ *program.Call, in []*tensor) []*tensor {
		// a partial sum becomes whole
		out := r.emptyLike(in[0], in[0].dtype)
		if r.needsGrad(in[0]) {
			r.record("_ToTorchTensor", one(out), in, nil, passOn)
		}
		return one(out)
	}},
	{"all_reduce_backward", castNone, func(r *run, _ *program.Call, in []*tensor) []*tensor {
		// DTensor.from_local of what is the same on all ranks: of its gradient each has a part of the sum
		out := r.look(in[0], in[0].layout)
		if r.needsGrad(in[0]) {
			r.record("_FromTorchTensor", one(out), in, nil, func(r *run, _ *node, g []*tensor) []*tensor {
				outs := r.outs(1)
				outs[0] = r.emptyLike(g[0], g[0].dtype)
				return outs
			})
		}
		return one(out)
	}},
}

// divide is distribute_tensor of every parameter that is a DTensor: its part is a new tensor, for which the parts of
// all ranks are made row-major where it is divided along another dimension than the first (Shard._shard_tensor of
// placement_types.py).
func (r *run) divide(values []*tensor) {
	for _, id := range r.prog.State {
		v, whole := &r.prog.Values[id], r.prog.Whole[id]
		if whole == nil {
			continue
		}
		t := values[id]
		var parts []*storage
		if len(v.Shape) > 1 && v.Shape[0] == whole[0] {
			for left := whole[1]; left > 0; left -= v.Shape[1] {
				parts = append(parts, r.alloc(program.BytesOf(program.Numel(v.Shape), t.dtype), timeline.Temporary))
			}
		}
		st := r.alloc(program.BytesOf(program.Numel(v.Shape), t.dtype), timeline.Parameter)
		st.state, st.parameter = t.st.state, t.st.parameter
		for _, part := range parts {
			r.drop(part)
		}
		r.drop(t.st)
		t.st, t.layout = st, r.layouts.rowMajor(v.Shape)
		if t.leaf != nil {
			t.leaf.apart = true
		}
	}
}
