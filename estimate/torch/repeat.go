package torch

import (
	"slices"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// A moment is the state of a run at the end of a training step, as far as steps can change it. Parameters, optimizer
// states, labels and the like are made once and stay; what a step leaves behind beside them are its Python variables.
type moment struct {
	event  int        // how many there were
	blocks int32      // likewise
	vars   []variable // outputs and loss
	blas   [2]bool
	lt     [2]bool
	dnn    [2]bool
	plans  int
}

// A variable is a tensor that out or loss holds.
type variable struct {
	block   int32
	bytes   int64
	refs    int32 // of the tensor
	sharers int32 // references to its storage
	state   bool
	graph   bool // there is a graph behind it
}

func (r *run) moment(variables []*tensor) moment {
	m := moment{event: r.log.Written(), blocks: r.log.Blocks(), blas: r.blas, lt: r.lt, dnn: r.dnn,
		plans: len(r.plans.planned), vars: make([]variable, len(variables))}
	for i, t := range variables {
		m.vars[i].block = noBlock
		if t != nil && t.st != nil {
			m.vars[i] = variable{t.st.block, t.st.bytes, t.refs, t.st.refs, t.st.state, t.fn != nil}
		}
	}
	return m
}

// restRepeats has the steps that are left be repetitions of the one that is over, where they are. end is the moment
// when the step before it was over, and held what the variables hold.
func (r *run) restRepeats(end *moment, steps int, held []*tensor) bool {
	if r.opts.EveryStep || int(r.step) >= steps {
		return false
	}
	now := r.moment(held)
	if r.step > 1 && r.ddp.settled(r.step-1) {
		if carried, ok := r.repeats(*end, now); ok {
			r.log.Repeat(end.event, end.blocks, steps-int(r.step), carried)
			return true
		}
	}
	*end = now
	return false
}

// repeats tells whether every step after the one from a to b does the same as that one, but for the numbers of its
// blocks, and if so which blocks of the step before it gave back: pairs of such a block and of the one that took its
// place.
//
// A step is a function of the program, the options and the state that it finds. So when the state at b is the one at
// a under other block numbers, the next step makes the same requests, and leaves the same state. What it finds are
// the handles and plans of libraries, which are compared; tensors that live on, which are the same ones at a and at b
// unless the step allocated some that are left or gave some of before back; and the variables out and loss, which
// every step assigns anew. Anything else that the step left behind or took away refuses.
func (r *run) repeats(a, b moment) ([][2]int32, bool) {
	if a.blas != b.blas || a.lt != b.lt || a.dnn != b.dnn || a.plans != b.plans || len(a.vars) != len(b.vars) {
		return nil, false
	}
	var carried [][2]int32
	for i, v := range a.vars {
		w := b.vars[i]
		pair := [2]int32{v.block, w.block}
		v.block, w.block = 0, 0
		if v != w {
			return nil, false
		}
		if pair[0] != pair[1] && !slices.Contains(carried, pair) {
			carried = append(carried, pair)
		}
	}
	left := make([]bool, b.blocks-a.blocks) // of the step's own blocks, those that live
	next, gone := int32(0), 0
	for s := range r.log.Stretches {
		for i, e := range s.Entries {
			switch {
			case e.Kind() == timeline.Alloc && s.First+i >= a.event:
				left[next] = true
				next++
			case e.Kind() == timeline.Free && s.First+i >= a.event:
				if block := e.Block(); block >= a.blocks {
					left[block-a.blocks] = false
				} else if slices.ContainsFunc(carried, func(p [2]int32) bool { return p[0] == block }) {
					gone++
				} else {
					return nil, false
				}
			}
		}
	}
	for _, p := range carried {
		if p[0] < 0 || p[1] < a.blocks || !left[p[1]-a.blocks] {
			return nil, false
		}
		left[p[1]-a.blocks] = false
	}
	return carried, gone == len(carried) && !slices.Contains(left, true)
}
