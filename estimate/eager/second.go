package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// A firstPass is the forward and backward pass of the first step, which those of later steps make again: the same
// requests under other numbers of blocks. A pass is a function of the program, the options and the state that it
// finds. What later ones find that the first did not are the handles and labels which that made for good, and the
// variables out and loss, which give back what they held when they are assigned anew; and between its mark and its
// forward pass, the second one makes the buckets of DDP anew. A later step's optimizer, which finds its states, is
// simulated as any other.
type firstPass struct {
	from, to     int   // its events
	first, after int32 // its blocks
	outs, loss   assigned
	reduced      assigned // where DDP has reduced its gradients
	labels       [2]int   // the events that make them
	forGood      []int32  // blocks of handles and labels

	left leftBehind // by the next pass
}

// A leftBehind is what a pass leaves behind: in blocks of the first one, until those of its own are known.
type leftBehind struct {
	grads    []*tensor // by parameter
	outs     []*tensor
	loss     *tensor
	storages []*storage
}

// An assigned is where a variable is assigned that may have held something.
type assigned struct {
	event int
	layer int32
}

// watch returns what is to be learnt of the first pass for later ones, nil where more differs between them: what
// gathers over steps, what several GPUs do at their beginning, and what a Run is to say of each block.
func (r *run) watch() *firstPass {
	o := r.opts
	if r.step > 1 || o.Steps == 1 || o.EveryStep || o.Tensors || o.Compiled || o.Accumulate > 1 || o.Scaler ||
		o.ZeroGrads || o.DropOutput || !r.ddp.alike() || r.shards != nil || r.zero != nil ||
		len(r.checkpoints)+len(r.functions) > 0 {
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

// assigns notes where a variable is assigned.
func (r *run) assigns(of func(*firstPass) *assigned) {
	if r.watched != nil {
		*of(r.watched) = assigned{r.log.Written(), r.layer}
	}
}

// end is called behind the first pass. It reports whether nothing is left of the pass but what is known to be.
func (p *firstPass) end(r *run, t *training, params []*leaf) bool {
	if t.loss == nil || len(r.attributes)+len(r.hooked[0]) > 0 {
		return false
	}
	p.to, p.after = r.log.Written(), r.log.Blocks()
	grads := make([]*tensor, len(params))
	for i, l := range params {
		grads[i] = l.grad
	}
	c := copies{r: r, first: p.first}
	p.left = c.all(leftBehind{grads: grads, outs: t.outs, loss: t.loss})
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

// again makes the pass of a step of the first. more says that there will be another one.
func (p *firstPass) again(r *run, t *training, params []*leaf, more bool) {
	made := p.left
	if more {
		c := copies{r: r, first: p.first}
		p.left = c.all(made)
		c.keepGraphs()
	}
	l := r.log.Copying(p.from, p.first, p.after, p.forGood, r.step-1)
	l.To(p.from + 1) // the mark
	r.layer = timeline.NoLayer
	r.rebuild()
	l.To(p.outs.event)
	r.layer = p.outs.layer
	r.releaseAll(t.outs)
	l.To(p.labels[0])
	l.Skip(p.labels[1])
	l.To(p.loss.event)
	r.layer = p.loss.layer
	r.release(t.loss)
	if r.ddp != nil {
		l.To(p.reduced.event)
		r.layer = p.reduced.layer
		r.dropOld()
	}
	l.To(p.to)
	for _, s := range made.storages {
		if s.block != noBlock {
			s.block = l.Block(s.block)
		}
	}
	t.outs, t.loss = made.outs, made.loss
	for i, g := range made.grads {
		params[i].grad = g
	}
	r.recycle()
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
func (c *copies) all(of leftBehind) leftBehind {
	copied := leftBehind{grads: make([]*tensor, len(of.grads)), outs: make([]*tensor, len(of.outs)), loss: c.of(of.loss)}
	for i, out := range of.outs {
		copied.outs[i] = c.of(out)
	}
	for i, g := range of.grads {
		copied.grads[i] = c.of(g)
	}
	copied.storages = c.made
	return copied
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
	st := c.storage[t.st]
	if st == nil {
		if c.storage == nil {
			c.storage = map[*storage]*storage{}
		}
		st = c.r.storages.one()
		*st = *t.st
		st.refs = 0
		c.storage[t.st] = st
		c.made = append(c.made, st)
	}
	st.refs++
	n := c.r.tensors.one()
	*n = *t
	n.st = st
	c.tensors = append(c.tensors, tensorCopy{t, n, 1})
	return n
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
