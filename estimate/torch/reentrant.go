package torch

import (
	"math"

	"github.com/memestimate/memestimate/estimate/program"
)

// A region is one checkpointed call of a module with use_reentrant=True, CheckpointFunction of
// torch/utils/checkpoint.py. Its forward runs without gradients. Its node in backward keeps what
// it was called with, runs all of it again with gradients, and has a backward pass of its own over that.
type region struct {
	span   program.Span
	values []program.ValueID
	args   []*tensor // likewise; while the region runs
	like   []tensor  // args, without their storages
	outs   []program.ValueID
}

// enterRegion begins a region.
func (r *run) enterRegion(span program.Span, values []*tensor) {
	g := &region{span: span, values: r.prog.Read(span)}
	for _, v := range g.values {
		g.args = append(g.args, values[v].retain())
		g.like = append(g.like, *values[v])
	}
	r.region, r.grad = g, false
}

// exitRegion ends it: what it made and others read are the results of its node.
func (r *run) exitRegion(values []*tensor) {
	g := r.region
	r.region, r.grad = nil, true
	var outs []*tensor
	for i := g.span.First; i <= g.span.Last; i++ {
		for _, v := range r.prog.Calls[i].Out {
			if v != program.NoValue && values[v] != nil && !values[v].host {
				g.outs, outs = append(g.outs, v), append(outs, values[v])
			}
		}
	}
	if len(outs) > 0 && r.needsGrad(g.args...) {
		r.record("CheckpointFunction", outs, g.args, g.args, g.backward)
	}
	r.releaseAll(g.args)
	g.args = nil
}

// backward is CheckpointFunction.backward. The gradients that it was called with stay to its end, and so do the results
// of the region.
func (g *region) backward(r *run, n *node, grads []*tensor) []*tensor {
	layer, origin, index, amp := r.layer, r.origin, r.index, r.amp
	room := [...][]*tensor{r.grads, r.results}
	r.grads, r.results = nil, nil // the node has the others
	r.grad, r.amp = true, nil
	r.enterAutocast()
	values := append([]*tensor(nil), r.values...)
	var inputs []*tensor
	saved := n.saved
	for i, v := range g.values {
		t := &tensor{}
		*t = g.like[i]
		t.refs, t.fn, t.leaf = 1, nil, nil
		if !t.host {
			t.st, saved = saved[0], saved[1:]
			t.st.refs++
		}
		if t.requiresGrad {
			t.leaf = &leaf{param: t, hooked: true}
		}
		inputs, values[v] = append(inputs, t), t.retain()
	}
	r.rerun(g, values)
	r.exitAutocast()
	root := &node{recorded: new(recorded), call: -1, seq: math.MaxInt32 - 1}
	var outs, given []*tensor
	for i, v := range g.outs {
		t := values[v]
		outs = append(outs, t)
		if t != nil && t.requiresGrad && i < len(grads) && grads[i] != nil {
			root.next = append(root.next, r.edgeTo(t))
			given = append(given, grads[i])
		}
	}
	root.backward = func(*run, *node, []*tensor) []*tensor {
		for _, t := range given {
			t.retain()
		}
		return given
	}
	if r.err == nil && len(given) > 0 {
		root.grad = given[0].retain() // one that says that there are some
		r.backwardOf(root)
	}
	r.releaseAll(outs)
	results := make([]*tensor, len(inputs))
	for i, t := range inputs {
		if l := t.leaf; l != nil {
			results[i], l.grad = l.grad, nil
		}
		r.release(values[g.values[i]])
		r.release(t)
	}
	r.grads, r.results = room[0], room[1]
	r.layer, r.origin, r.index, r.amp, r.grad, r.inBackward = layer, origin, index, amp, false, true
	return results
}

// rerun runs a region's calls again.
func (r *run) rerun(g *region, values []*tensor) {
	out := map[program.ValueID]bool{}
	for _, v := range g.outs {
		out[v] = true
	}
	outer := r.values
	r.values = values
	for i := g.span.First; i <= g.span.Last && r.err == nil; i++ {
		c := &r.prog.Calls[i]
		r.layer, r.origin, r.index = c.Layer, c.Origin, i
		for _, span := range spansFrom(r.functions, i) {
			if r.region == nil && r.grad && span != g.span && span.Last <= g.span.Last {
				r.enterRegion(span, values)
			}
		}
		rest, err := r.call(c, values)
		if err != nil {
			r.err = err
			break
		}
		r.releaseAll(rest)
		for _, v := range r.lives.ends.After(int(i)) {
			if !out[v] && values[v] != nil {
				r.release(values[v])
				values[v] = nil
			}
		}
		if r.region != nil && r.region.span.Last == i {
			r.exitRegion(values)
		}
		r.recycle()
	}
	r.values = outer
}
