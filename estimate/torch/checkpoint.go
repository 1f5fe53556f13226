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

	// One within another keeps no inputs: these are saved tensors of the outer frame, from its saved[from] on, so that
	// the outer one is run again first.
	outer  *frame
	like   []tensor // inputs as they were, without their storages
	from   int32
	within []*frame // those in this one, in order

	saved   []*storage // by number of saving; nil before the recomputation and once the node has it
	waiting int32      // nodes that have not run, and frames within it that have some
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

// wrapped sets which calls run under checkpoint, and which as functions of autograd: those that were asked for, else
// those that the program's lines say.
func (r *run) wrapped() {
	switch p := r.prog; {
	case len(p.Checkpoints) == 0:
		r.checkpoints, r.functions, r.noGrad = p.Regions()
	case p.Reentrant:
		r.functions = p.Checkpoints
	default:
		r.checkpoints = p.Checkpoints
	}
}

// enterCheckpoint begins the spans that call i begins.
func (r *run) enterCheckpoint(i int, values []*tensor) {
	if !r.grad {
		return
	}
	for _, span := range spansFrom(r.noGrad, int32(i)) {
		r.noGradSpan, r.grad = &span, false
		return
	}
	for _, span := range spansFrom(r.functions, int32(i)) {
		r.enterRegion(span, values)
		return // what begins within it begins again in backward
	}
	for _, span := range spansFrom(r.checkpoints, int32(i)) {
		f := &frame{span: span, values: r.prog.Read(span), outer: r.frame}
		for _, v := range f.values {
			if f.outer == nil {
				f.inputs = append(f.inputs, r.detached(values[v]))
			} else {
				f.like = append(f.like, *values[v])
			}
		}
		if o := f.outer; o != nil {
			o.within = append(o.within, f)
			o.waiting++
			f.from = int32(len(o.saved))
			o.saved = append(o.saved, make([]*storage, len(f.values))...)
			o.lastCall, o.lastMade = int32(i)-1, 0
		}
		r.frame = f
	}
}

// spansFrom returns the spans that begin with a call, the outermost first.
func spansFrom(all []program.Span, call int32) []program.Span {
	k, ok := slices.BinarySearchFunc(all, call, func(s program.Span, i int32) int { return int(s.First - i) })
	if !ok {
		return nil
	}
	n := k
	for n < len(all) && all[n].First == call {
		n++
	}
	return all[k:n]
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
func (r *run) exitCheckpoint(i int, values []*tensor) {
	if r.noGradSpan != nil && int(r.noGradSpan.Last) == i {
		r.noGradSpan, r.grad = nil, true
	}
	if r.region != nil && int(r.region.span.Last) == i {
		r.exitRegion(values)
	}
	for f := r.frame; f != nil && int(f.span.Last) == i; f = r.frame {
		r.frame = f.outer
		if f.waiting == 0 {
			r.finish(f)
		}
	}
}

// finish lets go of what a frame keeps, for which no node waits any more.
func (r *run) finish(f *frame) {
	r.releaseAll(f.inputs)
	f.inputs = nil
	o := f.outer
	if o == nil {
		return
	}
	for i := int(f.from); i < int(f.from)+len(f.values); i++ {
		if o.saved[i] != nil {
			r.drop(o.saved[i])
			o.saved[i] = nil
		}
	}
	if o.waiting--; o.waiting == 0 && !r.within(o) {
		r.finish(o)
	}
}

// within reports whether the forward pass is in a frame.
func (r *run) within(f *frame) bool {
	for g := r.frame; g != nil; g = g.outer {
		if g == f {
			return true
		}
	}
	return false
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
		case r.recomputed != nil && r.index <= r.inner: // the hooks of a frame within it have it
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
	f := n.packed.in
	r.recomputeOnce(f)
	for i, s := range n.packed.saved() {
		if s != nil {
			n.saved = append(n.saved, s)
			n.packed.saved()[i] = nil
		}
	}
}

// recomputeOnce recomputes a frame, and first the one around it, which then has its inputs.
func (r *run) recomputeOnce(f *frame) {
	if f.done {
		return
	}
	f.done = true
	o := f.outer
	if o == nil {
		r.recompute(f)
		return
	}
	r.recomputeOnce(o)
	for i := range f.values {
		t := f.like[i]
		t.refs, t.fn, t.leaf = 1, nil, nil
		if !t.host {
			t.st, o.saved[int(f.from)+i] = o.saved[int(f.from)+i], nil
		}
		if t.requiresGrad {
			t.leaf = &leaf{param: &t, hooked: true}
		}
		f.inputs = append(f.inputs, &t)
	}
	r.recompute(f)
	r.releaseAll(f.inputs)
	f.inputs = nil
}

// packInputs saves in a frame that is recomputed what a frame within it, which begins with call i, is called with.
func (r *run) packInputs(f *frame, i int32, values []*tensor) {
	for _, in := range f.within {
		if in.span.First != i {
			continue
		}
		r.inner = max(r.inner, in.span.Last)
		for k, v := range in.values {
			if t := values[v]; !t.host && in.waiting > 0 {
				t.st.refs++
				f.saved[int(in.from)+k] = t.st
			}
		}
		r.packed = int(in.from) + len(in.values)
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
	if f.waiting--; f.waiting == 0 && !r.within(f) {
		r.finish(f)
	}
}

// recompute runs a frame's forward again, in an autocast region of its own, in the autograd engine's thread. What it
// makes dies as in any forward pass; its graph dies with its results.
func (r *run) recompute(f *frame) {
	layer, origin, index, amp, grads := r.layer, r.origin, r.index, r.amp, r.grad
	r.recomputed, r.packed, r.inner, r.grad, r.amp = f, 0, -1, true, nil
	r.enterAutocast()
	values := slices.Clone(r.values)
	for i, v := range f.values {
		values[v] = f.inputs[i]
	}
	for i := f.span.First; i <= f.lastCall && r.err == nil; i++ {
		c := &r.prog.Calls[i]
		r.layer, r.origin, r.index = c.Layer, c.Origin, i
		r.packInputs(f, i, values)
		rest, err := r.call(c, values)
		r.stopAt = 0
		if err != nil {
			r.err = err
			break
		}
		r.releaseAll(rest)
		for _, v := range r.lives.ends.After(int(i)) {
			if !slices.Contains(f.values, v) {
				r.release(values[v])
				values[v] = nil
			}
		}
		r.recycle()
	}
	if r.err == nil {
		r.packInputs(f, f.lastCall+1, values)
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
