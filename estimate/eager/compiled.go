package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
)

// A compilation is the least that a compiled forward pass could keep for backward.
//
// torch._functorch.partitioners.min_cut_rematerialization_partition cuts the joint graph of forward and backward where
// fewest bytes cross, since what is cut away is computed again, in the kernels that read it. Banned from that are
// results of products, convolutions, attention and reductions, and what such an operator of backward reads, which
// would have to be written out anyway. Random numbers are drawn again from their seed. The real cut is under more bans
// (long chains, uses far apart), so it keeps at least this much.
type compilation struct {
	first  []int32            // by call: the number of its first allocation
	made   []piece            // by number
	keep   []bool             // by number: it crosses
	behind map[int32][]int32  // by number of what does not: what it is computed from that does
	held   []*storage         // what crosses, from its birth to the end of the forward pass
	alive  map[int32]*storage // likewise, by number
	nth    int32              // allocations of the call so far
	reads  []int32            // by the call
	on     bool               // a call of the program runs
	dry    bool               // it is being found out

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
	for _, room := range [][]op{matmulOps, convOps, attentionOps, rnnOps, einsumOps, fftOps, opaqueOps} {
		for _, o := range room {
			names[o.name] = true
		}
	}
	return names
}

// reducedBy is how much smaller a result is than what was read, to be taken for a reduction's.
const reducedBy = 4

// compile runs a forward pass and its loss, and cuts it.
func compile(p *aten.Program, opts Options) (*compilation, error) {
	opts.Full = nil
	r := &run{opts: &opts, prog: p, layer: -1, at: -1, rows: rowsByName()}
	r.log.Layers = p.Layers
	c := &compilation{first: make([]int32, len(p.Calls)), dry: true, unfused: unfused()}
	r.compiled = c
	values, _ := r.load()
	r.step, r.grad = 1, true
	r.enterAutocast()
	if err := r.forward(values); err != nil {
		return nil, err
	}
	c.cut()
	return c, r.err
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
	c.reads = c.reads[:0]
	for _, t := range in {
		if t != nil && !t.host && t.st.number > 0 {
			c.reads = append(c.reads, t.st.number-1)
		}
	}
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
	if !m.fixed && s.bytes*reducedBy <= largest && op != "dropout" && op != "feature_dropout" && op != "drop_path" {
		m.fixed = true
	}
	if s.bytes < largest && op == "dropout" {
		m.from = nil // a mask: random numbers are drawn again
	} else {
		m.from = slices.Clone(c.reads)
	}
	c.made = append(c.made, m)
}

// needs notes what a node of autograd saves.
func (c *compilation) needs(r *run, saved []*tensor) {
	if c == nil || !c.dry || !c.on {
		return
	}
	how := uint8(readByKernel)
	if c.unfused[r.prog.Calls[r.index].Op] {
		how = readWhole
	}
	for _, t := range saved {
		if t != nil && !t.host && t.st.number > 0 {
			c.made[t.st.number-1].need |= how
		}
	}
}

// cut decides what crosses.
func (c *compilation) cut() {
	n := int32(len(c.made))
	g := newNetwork(int(2 + 2*n))
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

// save has a node keep what stands for what it saves.
func (c *compilation) save(n *node, t *tensor) {
	if t == nil || t.host {
		return
	}
	if c.dry || !c.on || t.st.number == 0 {
		n.save(t)
		return
	}
	for _, k := range c.crossing(t.st.number - 1) {
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
