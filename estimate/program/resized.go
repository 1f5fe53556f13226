package program

import "slices"

// An expression is the calls of one function that make of a value another, of which nothing else reads anything.
type expression struct {
	calls  []int32
	result ValueID
}

// resized returns the call that ends the turn of a loop which makes another size of a value and gives it its name,
// bases = left * bases[..., :-1] + right * bases[..., 1:]; -1 where there is none. The turn before, or the next one,
// does the same.
func (l *liveness) resized(v ValueID) int32 {
	e := l.expressionOf(v)
	if e == nil {
		return -1
	}
	l.resizes[e.result] = e
	if l.alike(l.resizes[v], e) || l.of[e.result].reads > 1 && l.alike(e, l.expressionOf(e.result)) {
		return e.calls[len(e.calls)-1]
	}
	return -1
}

// alike reports whether two expressions have the same operators.
func (l *liveness) alike(a, b *expression) bool {
	return a != nil && b != nil && slices.EqualFunc(a.calls, b.calls, func(i, j int32) bool {
		return l.p.Calls[i].Op == l.p.Calls[j].Op
	})
}

// expressionOf returns the expression of a value that several calls read and that ends in one call.
func (l *liveness) expressionOf(v ValueID) *expression {
	const maxCalls = 32 // calls of an expression
	x, open := &l.of[v], l.of[v].reads
	if open > maxCalls {
		return nil
	}
	var calls []int32
	derived := map[ValueID]bool{v: true}
	for i := x.made + 1; open > 0 && i < min(x.made+1+maxAhead, int32(len(l.p.Calls))) && len(calls) < maxCalls; i++ {
		c := &l.p.Calls[i]
		read := int32(0)
		for _, in := range c.In {
			if in != NoValue && derived[in] {
				read++
			}
		}
		if read == 0 {
			continue
		}
		if c.Scope != x.owner {
			break
		}
		calls = append(calls, i)
		if open -= read; open == 0 && i > x.reader && len(c.Out) == 1 && c.Out[0] != NoValue {
			return &expression{calls, c.Out[0]}
		}
		for _, out := range c.Out {
			if out != NoValue {
				derived[out] = true
				open += l.of[out].reads
			}
		}
	}
	return nil
}

// maxAhead is how many calls an expression may be spread over: others may be between its own.
const maxAhead = 256
