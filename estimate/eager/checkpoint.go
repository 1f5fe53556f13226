package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
)

// A frame is one checkpointed call of a module in one forward pass: _CheckpointFrame of torch/utils/checkpoint.py with
// use_reentrant=False. What autograd would save within it is dropped, and only counted; the first backward node that
// asks for some of it has the module's forward run again, and what that saves is handed out. The frame lives as long
// as one of those nodes waits.
type frame struct {
	span    aten.Span
	inputs  []*tensor // beside values: what the calls read that was made outside, kept for the recomputation
	values  []aten.ValueID
	saved   []*storage // by number of saving; nil before the recomputation and once the node has it
	waiting int32      // nodes that have not run
	done    bool       // the recomputation has run

	// Where it stops (early_stop): at the last saving, whose operator does not run again, since its inputs are packed
	// before its kernel is called. One that saves a result runs.
	lastCall int32
	lastMade int64 // the allocation of lastCall that is its result, from 1; 0 runs it to the end
}

// enterCheckpoint begins the span that call i begins, if any.
func (r *run) enterCheckpoint(i int, values []*tensor) {
	k, ok := slices.BinarySearchFunc(r.prog.Checkpoints, int32(i),
		func(s aten.Span, i int32) int { return int(s.First - i) })
	if !ok || !r.grad {
		return
	}
	f := &frame{span: r.prog.Checkpoints[k]}
	made := map[aten.ValueID]bool{}
	for j := f.span.First; j <= f.span.Last; j++ {
		c := &r.prog.Calls[j]
		for _, v := range c.In {
			if v == aten.NoValue || made[v] || r.prog.Values[v].Kind != aten.Activation {
				continue
			}
			made[v] = true
			f.values = append(f.values, v)
			f.inputs = append(f.inputs, r.detached(values[v]))
		}
		for _, v := range c.Out {
			if v != aten.NoValue {
				made[v] = true
			}
		}
	}
	r.frame = f
}

// detached returns a leaf of t's storage, as unpacking a saved tensor for the recomputation does.
func (r *run) detached(t *tensor) *tensor {
	d := r.look(t, t.layout)
	if t.requiresGrad {
		d.requiresGrad, d.leaf = true, r.leaves.one()
		*d.leaf = leaf{param: d}
	}
	return d
}

// exitCheckpoint ends the span that call i ends.
func (r *run) exitCheckpoint(i int) {
	if f := r.frame; f != nil && int(f.span.Last) == i {
		r.frame = nil
		if f.waiting == 0 {
			r.releaseAll(f.inputs)
		}
	}
}

// pack is the pack hook of a checkpointed forward and of its recomputation: nothing stays with the node that saves.
func (r *run) pack(n *node, outs, saved []*tensor) {
	f := r.frame
	if f == nil {
		f = r.again
	}
	for _, t := range saved {
		switch {
		case t == nil || t.host:
			continue
		case r.again != nil:
			if r.packed < len(f.saved) {
				t.st.refs++
				f.saved[r.packed] = t.st
				r.packed++
			}
			continue
		case n.frame == nil:
			n.frame, n.packed = f, int32(len(f.saved))
			f.waiting++
		}
		f.saved = append(f.saved, nil)
		n.packs++
		f.lastCall, f.lastMade = r.index, 0
	}
	if r.again != nil || n.packs == 0 || outs[0] == nil || outs[0].host {
		return
	}
	mine := func(t *tensor) bool { return t != nil && !t.host && t.st.born > r.callStart }
	if mine(outs[0]) && !slices.ContainsFunc(saved, mine) {
		f.lastMade = outs[0].st.born - r.callStart
	}
}

// unpack gives a node what it would have saved; the first of a frame runs the frame's forward again.
func (r *run) unpack(n *node) {
	f := n.frame
	if !f.done {
		f.done = true
		r.recompute(f)
	}
	for i := n.packed; i < n.packed+n.packs; i++ {
		if f.saved[i] != nil {
			n.saved = append(n.saved, f.saved[i])
			f.saved[i] = nil
		}
	}
}

// leave lets go of a node's part of its frame.
func (r *run) leave(n *node) {
	f := n.frame
	n.frame = nil
	for i := n.packed; i < n.packed+n.packs; i++ {
		if f.saved[i] != nil {
			r.drop(f.saved[i])
			f.saved[i] = nil
		}
	}
	if f.waiting--; f.waiting == 0 && r.frame != f {
		r.releaseAll(f.inputs)
	}
}

// recompute runs a frame's forward again, in an autocast region of its own, in the autograd engine's thread. What it
// makes dies as in any forward pass; its graph dies with its results.
func (r *run) recompute(f *frame) {
	layer, at, index, amp, grads := r.layer, r.at, r.index, r.amp, r.grad
	r.again, r.packed, r.grad, r.amp = f, 0, true, nil
	r.enterAutocast()
	values := slices.Clone(r.values)
	for i, v := range f.values {
		values[v] = f.inputs[i]
	}
	for i := f.span.First; i <= f.lastCall && r.err == nil; i++ {
		c := &r.prog.Calls[i]
		r.layer, r.at, r.index = c.Layer, c.Origin, i
		rest, err := r.call(c, values)
		r.stopAt = 0
		if err != nil {
			r.err = err
			break
		}
		r.releaseAll(rest)
		for _, v := range r.ends.After(int(i)) {
			if !slices.Contains(f.values, v) {
				r.release(values[v])
				values[v] = nil
			}
		}
		r.recycle()
	}
	for i := f.span.First; i <= f.lastCall; i++ { // results, and what an early stop unwinds
		for _, v := range r.prog.Calls[i].Out {
			if v != aten.NoValue && values[v] != nil {
				r.release(values[v])
				values[v] = nil
			}
		}
	}
	r.exitAutocast()
	r.recycle()
	r.again = nil
	r.layer, r.at, r.index, r.amp, r.grad = layer, at, index, amp, grads
}

// started notes where the operator of a call begins to allocate, and where a recomputation stops.
func (r *run) started() {
	r.callStart = r.born
	if f := r.again; f != nil && r.index == f.lastCall && f.lastMade > 0 {
		r.stopAt = r.born + f.lastMade
	}
}

// stopped reports whether a recomputation has stopped within this call: what follows of its operator does not run.
func (r *run) stopped() bool { return r.stopAt != 0 && r.born >= r.stopAt }
