package torch

import (
	"slices"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// A firstPass is the forward and backward pass of the first step, which those of later steps make again: the same
// requests under other numbers of blocks. A pass is a function of the program, the options and the state that it
// finds. What later ones find that the first did not are the handles and labels which that made for good, and the
// variables out and loss, which give back what they held when they are assigned anew; and between its mark and its
// forward pass, the second one makes the buckets of DDP anew. A later step's optimizer, which finds its states, is
// simulated as any other.
type firstPass struct {
	from, to     int     // its events
	first, after int32   // its blocks
	edits        []edit  // in the order of events
	forGood      []int32 // blocks of handles and labels

	left leftBehind // by the next pass
}

// An edit is what a later pass does otherwise: before an event in a layer it does something, then leaves out the events
// up to another one.
type edit struct {
	event, after int
	layer        int32
	do           func()
}

// A leftBehind is what a pass leaves behind: in blocks of the first one, until those of its own are known.
type leftBehind struct {
	grads    []*tensor // by parameter
	held     []*tensor // by variables
	storages []*storage
}

// watch returns what is to be learnt of the first pass for later ones, nil where more differs between them: what
// gathers over steps, and what several GPUs do at their beginning.
func (r *run) watch() *firstPass {
	o := r.opts
	if r.step > 1 || o.Steps == 1 || o.EveryStep || o.Accumulate > 1 || o.Scaler ||
		o.ZeroGrads || o.DropOutput || !r.ddp.alike() || r.shards != nil ||
		len(r.checkpoints) > 0 {
		return nil
	}
	return &firstPass{from: r.log.Written(), first: r.log.Blocks()}
}

// keepForGood notes a storage that is made once for all steps.
func (r *run) keepForGood(s *storage) {
	if r.watched != nil && s.block != noBlock && !slices.Contains(r.watched.forGood, s.block) {
		r.watched.forGood = append(r.watched.forGood, s.block)
	}
}

// laterDoes notes what later passes do here.
func (r *run) laterDoes(f func()) {
	if r.watched != nil {
		at := r.log.Written()
		r.watched.edits = append(r.watched.edits, edit{at, at, r.layer, f})
	}
}

// onceOnly notes that later passes leave out what was done since an event.
func (r *run) onceOnly(from int) {
	if r.watched != nil {
		r.watched.edits = append(r.watched.edits, edit{from, r.log.Written(), r.layer, func() {}})
	}
}

// end is called behind the first pass, with what variables hold then. It reports whether nothing is left of the pass
// but what is known to be.
func (p *firstPass) end(r *run, params []*leaf, held []*tensor) bool {
	if len(r.hooked[0]) > 0 {
		return false
	}
	r.forgetGraph(params)
	p.to, p.after = r.log.Written(), r.log.Blocks()
	grads := make([]*tensor, len(params))
	for i, l := range params {
		grads[i] = l.grad
	}
	c := copies{r: r, first: p.first}
	p.left = c.all(grads, held)
	if c.refused || !c.whole() {
		return false
	}
	left := make([]bool, p.after-p.first)
	next, given := 0, true
	r.log.Range(p.from, p.to, func(e timeline.Entry) {
		switch e.Kind() {
		case timeline.Alloc:
			left[next] = true
			next++
		case timeline.Free:
			if b := e.Block() - p.first; b >= 0 {
				left[b] = false
			} else {
				given = false // of what was there before it
			}
		}
	})
	gone := func(block int32) {
		if block >= p.first {
			left[block-p.first] = false
		}
	}
	for _, b := range p.forGood {
		gone(b)
	}
	for _, s := range p.left.storages {
		gone(s.block)
	}
	for _, l := range left {
		given = given && !l
	}
	if given {
		c.keepGraphs()
	}
	return given
}

// forgetGraph lets go of what leaves have in graphs, where no other run takes its memory: as a rule no other pass is
// simulated.
func (r *run) forgetGraph(params []*leaf) {
	if r.opts.Spare != nil {
		return
	}
	r.accs, r.work = slab[node]{}, nil
	for _, l := range params {
		if l.acc != nil && l.acc.refs == 0 {
			l.acc = nil
		}
	}
}

// again makes the pass of a step of the first, and returns what variables hold then. more says that there will be
// another one.
func (p *firstPass) again(r *run, params []*leaf, more bool) (held []*tensor) {
	made := p.left
	if more {
		c := copies{r: r, first: p.first}
		p.left = c.all(made.grads, made.held)
		c.keepGraphs()
	}
	l := r.log.Copying(p.from, p.first, p.after, p.forGood, r.step-1)
	for _, e := range p.edits {
		l.To(e.event)
		r.layer = e.layer
		e.do()
		l.Skip(e.after)
	}
	l.To(p.to)
	for _, s := range made.storages {
		if s.block != noBlock {
			s.block = l.Block(s.block)
		}
	}
	if r.opts.Tensors {
		r.made.madeAgain(l)
	}
	for i, g := range made.grads {
		params[i].grad = g
	}
	r.recycle()
	return made.held
}

// copies makes tensors that share storages as others do, which are given back before these are needed.
type copies struct {
	r       *run
	first   int32
	tensors []tensorCopy
	storage map[*storage]*storage
	made    []*storage
	refused bool
}

// all returns copies of what a pass left behind.
func (c *copies) all(grads, held []*tensor) (left leftBehind) {
	left = leftBehind{grads: make([]*tensor, len(grads)), held: make([]*tensor, len(held))}
	for i, t := range held {
		left.held[i] = c.of(t)
	}
	for i, g := range grads {
		left.grads[i] = c.of(g)
	}
	left.storages = c.made
	return left
}

type tensorCopy struct {
	of, copy *tensor
	times    int32
}

// of returns the copy of a tensor.
func (c *copies) of(t *tensor) *tensor {
	if t == nil {
		return nil
	}
	if t.host || t.st.state || t.st.block != noBlock && t.st.block < c.first || t.leaf != nil {
		c.refused = true
		return nil
	}
	if t.refs > 1 {
		for i := range c.tensors {
			if c.tensors[i].of == t {
				c.tensors[i].times++
				return c.tensors[i].copy
			}
		}
	}
	n := c.r.tensors.one()
	*n = *t
	n.st = c.sharing(t.st)
	if t.refs > 1 || t.st.refs > 1 || t.fn != nil { // else all of it is known
		c.tensors = append(c.tensors, tensorCopy{t, n, 1})
	}
	return n
}

// sharing returns the copy of a storage, with one more reference.
func (c *copies) sharing(of *storage) *storage {
	st := c.storage[of]
	if st == nil {
		st = c.r.storages.one()
		*st = *of
		st.refs = 0
		c.made = append(c.made, st)
		if of.refs > 1 {
			if c.storage == nil {
				c.storage = map[*storage]*storage{}
			}
			c.storage[of] = st
		}
	}
	st.refs++
	return st
}

// keepGraphs has the copies hold the graphs that made these tensors, in which nothing is saved any more.
func (c *copies) keepGraphs() {
	for _, t := range c.tensors {
		if t.copy.fn != nil {
			t.copy.fn.refs++
		}
	}
}

// whole reports whether nothing but what was copied refers to these tensors and their storages.
func (c *copies) whole() bool {
	for _, t := range c.tensors {
		if t.of.refs != t.times || t.of.st.refs != t.copy.st.refs {
			return false
		}
	}
	return true
}
