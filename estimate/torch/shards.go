package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// Shards say that the run is one rank of FSDP2: torch.distributed.fsdp.fully_shard around the modules of
// Program.Groups. The zero value is a process of its own.
type Shards struct {
	World, Rank int
	Keep        bool          // reshard_after_forward=False
	Param       program.DType // of MixedPrecisionPolicy: what is gathered, and computed in; Undefined is the parameters' own
	Reduce      program.DType // likewise: what gradients are reduced in; Undefined is what is gathered
	Meta        bool          // the model was made on the meta device: no rank ever holds all of it
	Offload     bool          // CPUOffloadPolicy: shards, their gradients and the optimizer are on the CPU
}

// The streams that FSDP2 allocates on beside the default one (FSDPCommContext of _fsdp_param_group.py). The blocks of
// one are never used on another.
const (
	defaultStream uint8 = iota
	gatherStream        // all_gather_copy_in_stream: what is gathered, and what of it is this rank's
	reduceStream        // reduce_scatter_stream: the sharded gradients
)

// sharding is the state of FSDP2 in a run.
type sharding struct {
	Shards
	groups  []*shardGroup
	begins  map[int32]groupSpan // by the first call of a module
	within  *shardGroup         // the module that the forward pass is in
	ends    int32               // its last call
	swapped []swapped           // what its calls read through RegisterPostBackwardFunction
	casts   []swapped           // the model's inputs, in the type that is computed in

	last     *storage      // a gathered buffer that waits for the next one's: comm_ctx.all_gather_state
	order    []*shardGroup // post_forward_order
	reducing *storage      // comm_ctx.reduce_scatter_state: the last reduce-scatter's input
}

// A groupSpan is a call of a group's module.
type groupSpan struct {
	group *shardGroup
	span  program.Span
}

// A swapped value stands for another while a module runs.
type swapped struct {
	value program.ValueID
	old   *tensor
}

// A shardGroup is the parameters that are gathered together: an FSDPParamGroup.
type shardGroup struct {
	params   []*shardParam
	gathered bool     // its parameters are there
	out      *storage // of the all-gather, until it is copied out
	turns    []int    // where post_forward_order has it
	ready    bool     // pre_backward has run
	then     *shardGroup
}

// A shardParam is a parameter of a group.
type shardParam struct {
	whole *tensor // what is computed with: its storage comes and goes
	leaf  *leaf   // this rank's part and its gradient; nil where it is frozen
	own   int64   // elements of a rank's part, those of padding included
	cast  bool    // it is gathered in another type

	stored program.DType // of the part
}

// shard is fully_shard around each module and the model, on a model that is on the GPU: each parameter is cut along
// its first dimension, and padded; what it was cut out of goes when the group has its parts. It returns what the
// optimizer steps.
func (r *run) shard(values []*tensor) (params []*leaf) {
	s := &sharding{Shards: r.opts.Shards, begins: map[int32]groupSpan{}}
	r.shards = s
	leaves := map[program.ValueID]*leaf{}
	for _, g := range r.prog.Groups {
		if s.Offload {
			r.moveGroup(g, values)
		}
		group := new(shardGroup)
		s.groups = append(s.groups, group)
		for _, span := range g.Spans {
			s.begins[span.First] = groupSpan{group, span}
		}
		var cut []*storage
		for _, id := range g.Params {
			old := values[id]
			p := r.cut(old)
			values[id] = p.whole
			if p.leaf != nil {
				leaves[id] = p.leaf
			}
			group.params = append(group.params, p)
			cut = append(cut, old.st)
		}
		for _, st := range cut {
			r.drop(st)
		}
	}
	if s.Offload {
		return nil
	}
	for _, id := range r.prog.Params {
		if l := leaves[id]; l != nil {
			params = append(params, l)
		}
	}
	return params
}

// moveGroup is _move_states_to_device: a module that is on the CPU passes through the GPU to be cut there.
func (r *run) moveGroup(g program.Group, values []*tensor) {
	for _, id := range g.Params {
		st := r.alloc(values[id].bytes(), timeline.Parameter)
		values[id].st.block = st.block
	}
}

// laidOn returns a new dense tensor: on the meta device it has no memory.
func (r *run) laidOn(meta bool, dtype program.DType, l *layout) *tensor {
	if !meta {
		return r.laid(dtype, l)
	}
	st, t := r.storages.one(), r.tensors.one()
	*st = storage{block: noBlock, refs: 1}
	*t = tensor{layout: l, st: st, dtype: dtype, refs: 1}
	return t
}

// cut makes a parameter's part (FSDPParam._init_sharded_param).
func (r *run) cut(old *tensor) *shardParam {
	s := r.shards
	rows, rest := int64(1), int64(1)
	if len(old.shape) > 0 {
		rows = old.shape[0]
		rest = program.Numel(old.shape[1:])
	}
	each := (rows + int64(s.World) - 1) / int64(s.World)
	mine := min(max(rows-int64(s.Rank)*each, 0), each)
	p := &shardParam{own: each * rest, stored: old.dtype}
	p.cast = s.Param != program.Undefined && old.dtype.IsFloat() && s.Param != old.dtype
	st := r.alloc(program.BytesOf(p.own, old.dtype), timeline.Parameter)
	st.state = true
	if s.Offload {
		r.free(st.block)
		st.block = noBlock
	}

	dtype := old.dtype
	if p.cast {
		dtype = s.Param
	}
	whole := r.storages.one()
	*whole = storage{block: noBlock, refs: 1, state: true, parameter: old.st.parameter}
	p.whole = r.tensors.one()
	*p.whole = tensor{layout: old.layout, st: whole, dtype: dtype, refs: 1, requiresGrad: old.requiresGrad}
	if old.leaf != nil {
		p.whole.leaf = r.leaves.one()
		*p.whole.leaf = leaf{param: p.whole}
		part := r.tensors.one()
		*part = tensor{layout: r.layouts.rowMajor([]int64{mine, rest}), st: st, dtype: old.dtype, refs: 1, requiresGrad: true}
		p.leaf = r.leaves.one()
		*p.leaf = leaf{param: part}
		part.leaf = p.leaf
	}
	return p
}

// gather is FSDPParamGroup.unshard: the parts of all ranks into one buffer (foreach_all_gather of
// _fsdp_collectives.py). What is gathered in another type is cast first.
func (r *run) gather(g *shardGroup) {
	if g.gathered || g.out != nil {
		return
	}
	r.stream = gatherStream
	bytes, cast := int64(0), int64(0)
	var inputs []*storage
	for _, p := range g.params {
		part := program.BytesOf(p.own, p.whole.dtype)
		bytes += part
		switch {
		case r.shards.Offload:
			inputs = append(inputs, r.fetch(p))
		case p.cast:
			cast += part
		}
	}
	if cast > 0 {
		inputs = append(inputs, r.alloc(cast, timeline.Temporary))
	}
	g.out = r.alloc(bytes*int64(r.shards.World), timeline.Temporary)
	for _, st := range inputs {
		r.drop(st)
	}
	r.stream = defaultStream
}

// fetch copies a part from the CPU, and casts it where it is gathered in another type (FSDPParam.all_gather_inputs).
func (r *run) fetch(p *shardParam) *storage {
	st := r.alloc(program.BytesOf(p.own, p.stored), timeline.Parameter)
	if p.cast {
		low := r.alloc(program.BytesOf(p.own, p.whole.dtype), timeline.Temporary)
		r.drop(st)
		st = low
	}
	return st
}

// copyOut is wait_for_unshard: each parameter gets its storage. In the forward pass the buffer stays until that of the
// next group is copied out, so that copying overlaps with gathering: a local, prev_all_gather_state, holds it to the
// function's end.
func (r *run) copyOut(g *shardGroup, forward bool) {
	s := r.shards
	if g.out == nil {
		return
	}
	gathered := g.out
	g.out = nil
	for _, p := range g.params {
		bytes := program.BytesOf(p.own, p.whole.dtype) * int64(s.World)
		p.whole.st.bytes = bytes
		p.whole.st.block = r.request(bytes, timeline.Parameter)
	}
	g.gathered = true
	if forward {
		r.dropGathered()
		s.last = gathered
		return
	}
	r.drop(gathered)
}

// dropGathered lets go of the buffer that waits for the next one's.
func (r *run) dropGathered() {
	if last := r.shards.last; last != nil {
		r.drop(last)
		r.shards.last = nil
	}
}

// reshard is FSDPParamGroup.reshard: storages are resized to nothing, whoever else refers to them.
func (r *run) reshard(g *shardGroup) {
	if !g.gathered {
		return
	}
	g.gathered = false
	for _, p := range g.params {
		r.free(p.whole.st.block)
		p.whole.st.block = noBlock
	}
}

// gatherRoot is the pre-forward of the model itself: the model's inputs are cast (cast_forward_inputs), then its group
// is gathered, to the end of backward (FSDPState._pre_forward).
func (r *run) gatherRoot(values []*tensor) {
	s := r.shards
	if s == nil {
		return
	}
	for _, id := range r.prog.Inputs {
		if x := values[id]; s.Param != program.Undefined && x != nil && x.dtype.IsFloat() && x.dtype != s.Param {
			s.casts = append(s.casts, swapped{id, x})
			values[id] = r.to(x, s.Param)
		}
	}
	root := s.groups[len(s.groups)-1]
	r.gather(root)
	r.copyOut(root, true)
}

// leaveRoot is its post-forward.
func (r *run) leaveRoot(values []*tensor) {
	s := r.shards
	if s == nil {
		return
	}
	r.dropGathered()
	for _, c := range s.casts {
		r.release(values[c.value])
		values[c.value] = c.old
	}
	s.casts = s.casts[:0]
	r.inOrder(s.groups[len(s.groups)-1], values, r.prog.Outputs)
}
