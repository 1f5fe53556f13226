package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// A frame is one checkpointed call of a module in one forward pass: _CheckpointFrame of torch/utils/checkpoint.py with
// use_reentrant=False. What autograd would save within it is dropped, and only counted; the first backward node that
// asks for some of it has the module's forward run again, and what that saves is handed out. The frame lives as long
// as one of those nodes waits.
type frame struct {
	span   program.Span
	inputs []*tensor // beside values: what the calls read that was made outside, kept for the recomputation
	values []program.ValueID

	saved   []*storage // by number of saving; nil before the recomputation and once the node has it
	waiting int32      // nodes that have not run
	done    bool       // the recomputation has run

	// Where it stops (early_stop): at the last saving, whose operator does not run again, since its inputs are packed
	// before its kernel is called. One that saves a result runs.
	lastCall int32
	lastMade int32 // the allocation of lastCall that is its result, from 1; 0 runs it to the end
}

// packed is what a node saves in a frame: some that follow each other there.
type packed struct {
	in       *frame
	first, n int32
}

// saved are the storages; nil before the recomputation and once the node has them.
func (p *packed) saved() []*storage { return p.in.saved[p.first : p.first+p.n] }

// wrapped sets which calls run under checkpoint: those that were asked for, else those that the program's lines say.
func (r *run) wrapped() {
	if r.checkpoints = r.prog.Checkpoints; len(r.checkpoints) == 0 {
		r.checkpoints, r.noGrad = r.prog.Regions()
	}
}

// enterCheckpoint begins the span that call i begins.
func (r *run) enterCheckpoint(i int, values []*tensor) {
	if !r.grad {
		return
	}
	if span := spanFrom(r.noGrad, int32(i)); span != nil {
		r.noGradSpan, r.grad = span, false
		return
	}
	if span := spanFrom(r.checkpoints, int32(i)); span != nil {
		f := &frame{span: *span, values: r.prog.Read(*span)}
		for _, v := range f.values {
			f.inputs = append(f.inputs, r.detached(values[v]))
		}
		r.frame = f
	}
}

// spanFrom returns the span that begins with a call, nil for none.
func spanFrom(all []program.Span, call int32) *program.Span {
	k, ok := slices.BinarySearchFunc(all, call, func(s program.Span, i int32) int { return int(s.First - i) })
	if !ok {
		return nil
	}
	return &all[k]
}

// detached returns a leaf of t's storage, as unpacking a saved tensor for the recomputation does.
func (r *run) detached(t *tensor) *tensor {
	d := r.look(t, t.layout)
	if t.requiresGrad {
		d.requiresGrad, d.leaf = true, r.leaves.one()
		*d.leaf = leaf{param: d, hooked: true}
	}
	return d
}

// exitCheckpoint ends the spans that call i ends.
func (r *run) exitCheckpoint(i int) {
	if r.noGradSpan != nil && int(r.noGradSpan.Last) == i {
		r.noGradSpan, r.grad = nil, true
	}
	if f := r.frame; f != nil && int(f.span.Last) == i {
		r.frame = nil
		if f.waiting == 0 {
			r.finish(f)
		}
	}
}

// finish lets go of what a frame keeps, for which no node waits any more.
func (r *run) finish(f *frame) {
	r.releaseAll(f.inputs)
	f.inputs = nil
}

// pack is the pack hook of a checkpointed forward and of its recomputation: nothing stays with the node that saves.
func (r *run) pack(n *node, outs, saved []*tensor) {
	f := r.frame
	if f == nil {
		f = r.recomputed
	}
	for _, t := range saved {
		switch {
		case t == nil || t.host:
			continue
		case r.recomputed != nil:
			if r.packed < len(f.saved) {
				t.st.refs++
				f.saved[r.packed] = t.st
				r.packed++
			}
			continue
		case n.packed == nil:
			n.packed = &packed{in: f, first: int32(len(f.saved))}
			f.waiting++
		}
		f.saved = append(f.saved, nil)
		n.packed.n++
		f.lastCall, f.lastMade = r.index, 0
	}
	if r.recomputed != nil || n.packed == nil || outs[0] == nil || outs[0].host {
		return
	}
	mine := func(t *tensor) bool { return t != nil && !t.host && t.st.born > r.callStart }
	if mine(outs[0]) && !slices.ContainsFunc(saved, mine) {
		f.lastMade = outs[0].st.born - r.callStart
	}
}

// unpack gives a node what it would have saved; the first of a frame runs the frame's forward again.
func (r *run) unpack(n *node) {
	if f := n.packed.in; !f.done {
		f.done = true
		r.recompute(f)
	}
	for i, s := range n.packed.saved() {
		if s != nil {
			n.saved = append(n.saved, s)
			n.packed.saved()[i] = nil
		}
	}
}

// leave lets go of a node's part of its frame.
func (r *run) leave(n *node) {
	f, saved := n.packed.in, n.packed.saved()
	n.packed = nil
	for i, s := range saved {
		if s != nil {
			r.drop(s)
			saved[i] = nil
		}
	}
	if f.waiting--; f.waiting == 0 && r.frame != f {
		r.finish(f)
	}
}

// recompute runs a frame's forward again, in an autocast region of its own, in the autograd engine's thread. What it
// makes dies as in any forward pass; its graph dies with its results.
func (r *run) recompute(f *frame) {
	layer, origin, index, amp, grads := r.layer, r.origin, r.index, r.amp, r.grad
	r.recomputed, r.packed, r.grad, r.amp = f, 0, true, nil
	r.enterAutocast()
	values := slices.Clone(r.values)
	for i, v := range f.values {
		values[v] = f.inputs[i]
	}
	for i := f.span.First; i <= f.lastCall && r.err == nil; i++ {
		c := &r.prog.Calls[i]
		r.layer, r.origin, r.index = c.Layer, c.Origin, i
		rest, err := r.call(c, values)
		r.stopAt = 0
		if err != nil {
			r.err = err
			break
		}
		r.releaseAll(rest)
		for _, v := range r.lives.ends.After[i] {
			if !slices.Contains(f.values, v) {
				r.release(values[v])
				values[v] = nil
			}
		}
		r.recycle()
	}
	for i := f.span.First; i <= f.lastCall; i++ { // results, and what an early stop unwinds
		for _, v := range r.prog.Calls[i].Out {
			if v != program.NoValue && values[v] != nil {
				r.release(values[v])
				values[v] = nil
			}
		}
	}
	r.exitAutocast()
	r.recycle()
	r.recomputed = nil
	r.layer, r.origin, r.index, r.amp, r.grad = layer, origin, index, amp, grads
}

// started notes where the operator of a call begins to allocate, and where a recomputation stops.
func (r *run) started() {
	r.callStart = r.born
	if f := r.recomputed; f != nil && r.index == f.lastCall && f.lastMade > 0 {
		r.stopAt = r.born + f.lastMade
	}
}

// stopped reports whether a recomputation has stopped within this call: what follows of its operator does not run.
func (r *run) stopped() bool { return r.stopAt != 0 && r.born >= r.stopAt }
