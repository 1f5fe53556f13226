package lifetime

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// An expression is the calls of one function that make of a value another, of which nothing else reads anything:
// x * cos + torch.cat((-x2, x1), -1) * sin, x1 and x2 being the halves of x.
type expression struct {
	calls  []int32
	result program.ValueID
}

func (e *expression) first() int32 { return e.calls[0] }
func (e *expression) last() int32  { return e.calls[len(e.calls)-1] }

// assignedNext returns the call after which the name of a value is likely given to what an expression makes of it, -1
// where none does. Names are assigned together where like expressions follow each other:
// q, k = rotate(q, cos, sin), rotate(k, cos, sin) holds the old q until the new k is made.
func (l *lives) assignedNext(v program.ValueID) int32 {
	e := l.expressionOf(v, false)
	if e == nil {
		return -1
	}
	first, last := e.first(), e.last()
	for next := l.following(first, e); next != nil; next = l.following(first, next) {
		last = next.last()
	}
	return last
}

// resized returns the call that ends the turn of a loop which makes another size of a value and gives it its name,
// bases = left * bases[..., :-1] + right * bases[..., 1:]; -1 where there is none. The turn before, or the next one,
// does the same.
func (l *lives) resized(v program.ValueID) int32 {
	e := l.expressionOf(v, true)
	if e == nil {
		return -1
	}
	if l.turns == nil {
		l.turns = map[program.ValueID]*expression{}
	}
	l.turns[e.result] = e
	if l.alike(l.turns[v], e) || l.reads[e.result] > 1 && l.alike(e, l.expressionOf(e.result, true)) {
		return e.last()
	}
	return -1
}

// following returns an expression like another that begins where that one ends, of a value that was there before the
// first of them began; nil where there is none.
func (l *lives) following(first int32, e *expression) *expression {
	i := e.last() + 1
	if int(i) >= len(l.p.Calls) || l.p.Calls[i].Scope != l.p.Calls[first].Scope {
		return nil
	}
	for _, v := range l.p.Calls[i].In {
		if v == program.NoValue || l.made[v] < 0 || l.made[v] >= first || l.owner[v] != l.p.Calls[i].Scope {
			continue
		}
		next := l.expressionOf(v, false)
		if next == nil || next.first() != i || len(next.calls) != len(e.calls) {
			continue
		}
		if !l.alike(e, next) {
			return nil
		}
		return next
	}
	return nil
}

// alike reports whether two expressions have the same operators.
func (l *lives) alike(a, b *expression) bool {
	return a != nil && b != nil && slices.EqualFunc(a.calls, b.calls, func(i, j int32) bool {
		return l.p.Calls[i].Op == l.p.Calls[j].Op
	})
}

// expressionOf returns the expression of a value that several calls read and that ends in one call, whose result has
// the size of the value, or any.
func (l *lives) expressionOf(v program.ValueID, anySize bool) *expression {
	const maxCalls = 32 // calls of an expression
	calls, open := l.walked[:0], l.reads[v]
	l.derive(v)
	for i := l.made[v] + 1; open > 0 && i < int32(len(l.p.Calls)) && len(calls) < maxCalls; i++ {
		c := &l.p.Calls[i]
		read := int32(0)
		for _, x := range c.In {
			if x != program.NoValue && l.derived[x] == l.walk {
				read++
			}
		}
		if read == 0 {
			continue
		}
		if c.Scope != l.owner[v] {
			break
		}
		calls = append(calls, i)
		if open -= read; open == 0 && i > l.reader[v] && (replaces(l.p, c, v) || anySize && one(c)) {
			return &expression{slices.Clone(calls), c.Out[0]}
		}
		for _, x := range c.Out {
			if x != program.NoValue {
				l.derived[x] = l.walk
				open += l.reads[x]
			}
		}
	}
	l.walked = calls
	return nil
}

// derive begins a walk over the calls that read a value and what they make of it.
func (l *lives) derive(v program.ValueID) {
	if l.derived == nil {
		l.derived = make([]int32, len(l.p.Values))
	}
	l.walk++
	l.derived[v] = l.walk
}

// one reports whether a call has one result.
func one(c *program.Call) bool { return len(c.Out) == 1 && c.Out[0] != program.NoValue }
