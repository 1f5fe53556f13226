package torch

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// enterGroup is the pre-forward of a module that call i begins. What it reads passes through a function whose gradient
// is the sign that the module's own gradients are there (RegisterPostBackwardFunction).
func (r *run) enterGroup(i int, values []*tensor) {
	s := r.shards
	if s == nil {
		return
	}
	b, ok := s.begins[int32(i)]
	if !ok {
		return
	}
	g := b.group
	r.gather(g)
	r.copyOut(g, true)
	s.within, s.ends = g, b.span.Last
	var ins, outs []*tensor
	for _, v := range r.prog.Read(b.span) {
		if t := values[v]; t != nil && t.requiresGrad {
			s.swapped = append(s.swapped, swapped{v, t})
			values[v] = r.look(t, t.layout)
			ins, outs = append(ins, t), append(outs, values[v])
		}
	}
	if len(ins) > 0 {
		r.record("RegisterPostBackwardFunction", outs, ins, nil, func(r *run, n *node, grads []*tensor) []*tensor {
			r.afterBackward(g)
			passed := r.outs(len(grads))
			for i, t := range grads {
				if t != nil {
					passed[i] = t.retain()
				}
			}
			return passed
		})
	}
}

// exitGroup is the post-forward of the module that call i ends.
func (r *run) exitGroup(i int, values []*tensor) {
	s := r.shards
	if s == nil || s.within == nil || s.ends != int32(i) {
		return
	}
	g := s.within
	s.within = nil
	for _, c := range s.swapped {
		if t := values[c.value]; t != nil {
			r.release(t)
			values[c.value] = c.old
		} else { // it went within the module
			r.release(c.old)
		}
	}
	s.swapped = s.swapped[:0]
	if !s.Keep {
		r.reshard(g)
	}
	r.inOrder(g, values, r.prog.Calls[i].Out)
}

// inOrder notes where post_forward_order has a group, and has its pre_backward run before the gradient of one of its
// results is used.
func (r *run) inOrder(g *shardGroup, values []*tensor, results []program.ValueID) {
	s := r.shards
	g.turns = append(g.turns, len(s.order))
	s.order = append(s.order, g)
	for _, v := range results {
		if v == program.NoValue || values[v] == nil || values[v].fn == nil {
			continue
		}
		if n := values[v].fn; n.gate != nil && n.gate != g {
			n.gate.then = g
		} else {
			n.gate = g
		}
	}
}

// beforeBackward is FSDPParamGroup.pre_backward: the parameters are there, and those of the group that comes next in
// backward are being gathered.
func (r *run) beforeBackward(g *shardGroup) {
	if g.then != nil {
		r.beforeBackward(g.then)
		g.then = nil
	}
	if g.ready {
		return
	}
	g.ready = true
	r.gather(g)
	r.copyOut(g, false)
	if k := len(g.turns); k > 0 {
		turn := g.turns[k-1]
		g.turns = g.turns[:k-1]
		if turn > 0 {
			r.gather(r.shards.order[turn-1])
		}
	}
}

// afterBackward is FSDPParamGroup.post_backward and foreach_reduce: the gradients of all ranks are added up, each rank
// keeps its part, in one block for the group.
func (r *run) afterBackward(g *shardGroup) {
	s := r.shards
	g.ready = false
	r.reshard(g)
	var with []*shardParam
	sum := int64(0)
	for _, p := range g.params {
		if l := p.whole.leaf; l != nil && l.grad != nil {
			with = append(with, p)
			sum += p.own
		}
	}
	if len(with) == 0 {
		return
	}
	r.dropReducing()
	own, reduce := with[0].leaf.param.dtype, with[0].whole.dtype
	if s.Reduce != program.Undefined {
		reduce = s.Reduce
	}
	s.reducing = r.alloc(program.BytesOf(sum, reduce)*int64(s.World), timeline.Temporary)
	for _, p := range with {
		r.release(p.whole.leaf.grad)
		p.whole.leaf.grad = nil
	}
	r.stream = reduceStream
	out := r.alloc(program.BytesOf(sum, reduce), timeline.Gradient)
	if own != reduce {
		wide := r.alloc(program.BytesOf(sum, own), timeline.Gradient)
		r.drop(out)
		out = wide
	}
	r.stream = defaultStream
	if s.Offload { // grad_offload_event: they are copied to the CPU
		r.drop(out)
		return
	}
	for _, p := range with {
		if p.leaf.grad == nil { // else it is added to
			out.refs++
			p.leaf.grad = r.tensors.one()
			*p.leaf.grad = tensor{layout: p.leaf.param.layout, st: out, dtype: own, refs: 1, view: true}
		}
	}
	r.drop(out)
}

func (r *run) dropReducing() {
	if s := r.shards; s.reducing != nil {
		r.drop(s.reducing)
		s.reducing = nil
	}
}

// endBackward is _root_post_backward_final_callback: groups whose inputs have no gradient, the model's own among them,
// come last.
func (r *run) endBackward() {
	s := r.shards
	if s == nil {
		return
	}
	for i := len(s.groups) - 1; i >= 0; i-- {
		if g := s.groups[i]; g.gathered || g.out != nil {
			r.copyOut(g, false)
			r.afterBackward(g)
		}
	}
	r.dropReducing()
	for _, g := range s.groups {
		g.turns, g.ready = g.turns[:0], false
	}
	s.order = s.order[:0]
}
