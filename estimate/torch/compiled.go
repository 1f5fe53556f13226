package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A compilation is the least that a compiled forward pass could keep for backward.
//
// torch._functorch.partitioners.min_cut_rematerialization_partition cuts the joint graph of forward and backward where
// fewest bytes cross, since what is cut away is computed again, in the kernels that read it. Banned from that are
// results of products, convolutions, attention, poolings, reductions and random numbers, and what such an operator of
// backward reads, which would have to be written out anyway. The real cut is under more bans (long chains, uses far
// apart), so it keeps at least this much.
type compilation struct {
	first   []int32            // by call: the number of its first allocation
	made    []piece            // by number
	sources []int32            // what calls read, one after the other
	keep    []bool             // by number: it crosses
	behind  map[int32][]int32  // by number of what does not: what it is computed from that does
	held    []*storage         // what crosses, from its birth to the end of the forward pass
	alive   map[int32]*storage // likewise, by number
	nth     int32              // allocations of the call so far
	reads   []int32            // by the call: the end of sources
	on      bool               // a call of the program runs
	dry     bool               // it is being found out

	unfused map[string]bool
}

// A piece is one allocation of a call.
type piece struct {
	bytes int64
	from  []int32 // what its call reads, by number
	fixed bool    // it cannot be computed again
	need  uint8   // what backward does with it
}

const (
	readByKernel = 1 << iota // a fused kernel reads it: it may be computed there
	readWhole                // an operator that is not fused does
)

// unfused returns the operators that inductor leaves to libraries.
func unfused() map[string]bool {
	names := map[string]bool{}
	for _, room := range [][]op{matmulOps, convOps, attentionOps, rnnOps, cellOps, einsumOps, fftOps, opaqueOps,
		poolOps} {
		for _, o := range room {
			names[o.name] = true
		}
	}
	return names
}

// reducedBy is how much smaller a result is than what was read, to be taken for a reduction's.
const reducedBy = 4

// compile runs a forward pass, and cuts it. What that works out, and its memory, is the run's own.
func (r *run) compile() error {
	n := len(r.prog.Calls)
	c := &compilation{first: make([]int32, n), made: make([]piece, 0, n), dry: true, unfused: unfused()}
	dry := &run{log: r.log, opts: r.opts, prog: r.prog, layer: -1, origin: -1, rows: r.rows,
		compiled: c, lives: r.lives}
	dry.plans, dry.reused, r.reused = r.plans, r.reused, reused{}
	values, _ := dry.load()
	dry.step, dry.grad = 1, true
	dry.enterAutocast()
	err := dry.forward(values)
	if err != nil {
		return err
	}
	r.log.Reset()
	r.compiled, r.lives, r.plans = c, dry.lives, dry.plans
	if r.opts.Spare != nil { // else the pass's memory is free for the cut
		dry.reset()
		r.reused = dry.reused
	}
	err = dry.err
	c.cut()
	return err
}

// prefersChannelsLast reports whether inductor has the convolutions of a training step work in channels_last: none is
// grouped unless by single channels, none halves its channels with a kernel larger than 1, and some are wide
// (GraphLowering.decide_layout_opt in torch/_inductor/graph.py).
func prefersChannelsLast(p *program.Program) bool {
	const narrow = 64
	wide, images := false, false
	for i := range p.Calls {
		c := &p.Calls[i]
		if !slices.ContainsFunc(convOps, func(o op) bool { return o.name == c.Op }) {
			continue
		}
		w := p.Values[c.In[1]].Shape
		if c.Args.Groups > 1 && w[1] > 1 || 2*w[0] <= w[1] && w[2] > 1 {
			return false
		}
		wide, images = wide || w[0] > narrow || w[1] > narrow, images || len(w) == 4
	}
	return wide && images // what it says of others is not followed: see convolution in torch/_inductor/kernel/conv.py
}

// enter is the beginning of a call.
func (c *compilation) enter(r *run, in []*tensor) {
	if c == nil {
		return
	}
	c.on, c.nth = true, 0
	if !c.dry {
		return
	}
	c.first[r.index] = int32(len(c.made))
	from := len(c.sources)
	for _, t := range in {
		if t != nil && !t.host && t.st.number > 0 {
			c.sources = append(c.sources, t.st.number-1)
		}
	}
	c.reads = slices.Clip(c.sources[from:])
}

// born notes an allocation.
func (c *compilation) born(r *run, s *storage) {
	if c == nil || !c.on {
		return
	}
	k := c.first[r.index] + c.nth
	c.nth++
	s.number = k + 1
	if !c.dry {
		if c.keep[k] {
			s.refs++
			c.held = append(c.held, s)
			c.alive[k] = s
		}
		return
	}
	op := r.prog.Calls[r.index].Op
	m := piece{bytes: s.bytes, fixed: c.unfused[op]}
	largest := int64(0)
	for _, from := range c.reads {
		largest = max(largest, c.made[from].bytes)
	}
	if !m.fixed && s.bytes*reducedBy <= largest && !program.Of(op).Is(program.Noise) {
		m.fixed = true
	}
	if m.from = c.reads; s.bytes < largest && op == "dropout" {
		m.fixed = true // its mask, of random numbers
	}
	c.made = append(c.made, m)
}

// keeps has a node of autograd keep what stands for what it saves.
func (c *compilation) keeps(r *run, n *node, saved []*tensor) {
	for _, t := range saved {
		if t == nil || t.host || !c.on || t.st.number == 0 {
			n.save(t)
			continue
		}
		switch op := r.prog.Calls[r.index].Op; {
		case program.Of(op).Is(program.Compares): // in the joint graph le(relu, 0) is a node of its own
			c.saveMask(r, n, t)
		case c.dry:
			n.save(t)
			if c.made[t.st.number-1].need |= readByKernel; c.unfused[op] {
				c.made[t.st.number-1].need |= readWhole
			}
		default:
			c.save(n, t.st.number-1)
		}
	}
}

// saveMask has a node keep the mask of a tensor, which is a piece like what a call makes.
func (c *compilation) saveMask(r *run, n *node, t *tensor) {
	k := c.first[r.index] + c.nth
	if !c.dry && !c.keep[k] {
		c.nth++
		c.save(n, k)
		return
	}
	mask := r.alloc(t.numel(), timeline.Activation)
	if c.dry {
		c.made[k] = piece{bytes: mask.bytes, from: []int32{t.st.number - 1}, need: readByKernel}
		n.save(t)
	} else {
		c.save(n, k)
	}
	r.drop(mask)
}

// cut decides what crosses.
func (c *compilation) cut() {
	n := int32(len(c.made))
	g := newNetwork(int(2+2*n), 3*int(n)+len(c.sources))
	in, out := func(k int32) int32 { return 2 + 2*k }, func(k int32) int32 { return 3 + 2*k }
	for k := range n {
		m := &c.made[k]
		g.connect(in(k), out(k), m.bytes)
		if m.fixed || m.need&readWhole != 0 {
			g.connect(0, in(k), unlimited)
		}
		if m.need != 0 {
			g.connect(out(k), 1, unlimited)
		}
		if !m.fixed {
			for _, from := range m.from {
				g.connect(out(from), in(k), unlimited)
			}
		}
	}
	side := g.minCut()
	c.keep = make([]bool, n)
	for k := range n {
		c.keep[k] = side[in(k)] && !side[out(k)]
	}
	c.behind = map[int32][]int32{}
	c.alive = map[int32]*storage{}
	c.dry = false
}

// crossing returns what stands for a saved tensor: itself, or what it is computed from again.
func (c *compilation) crossing(k int32) []int32 {
	if c.keep[k] {
		return []int32{k}
	}
	list, ok := c.behind[k]
	if ok {
		return list
	}
	c.behind[k] = nil
	if !c.made[k].fixed {
		for _, from := range c.made[k].from {
			for _, x := range c.crossing(from) {
				if !slices.Contains(list, x) {
					list = append(list, x)
				}
			}
		}
	}
	c.behind[k] = list
	return list
}

// save has a node keep a piece, or what that is computed from again.
func (c *compilation) save(n *node, k int32) {
	for _, k := range c.crossing(k) {
		if s := c.alive[k]; s != nil && !slices.Contains(n.saved, s) {
			s.refs++
			n.saved = append(n.saved, s)
		}
	}
}

// leave is the end of the forward pass.
func (c *compilation) leave(r *run) {
	if c == nil {
		return
	}
	c.on = false
	for _, s := range c.held {
		r.drop(s)
	}
	c.held = c.held[:0]
	clear(c.alive)
}
