package eager

import "slices"

// unpacked are the operators whose modules return a tuple, which the caller unpacks: y, _ = lstm(x). So
// results that nothing reads are variables too, and live until the calling function returns.
var unpacked = []string{"lstm", "gru", "rnn"}

// lifetimes returns, for each call, the activations that Python lets go after it, and for calls of unpacked
// operators the last call that their unread results live to. Memory is
// given back when the last variable that refers to a tensor is assigned again or its function
// returns. A graph does not keep the variables, so this is the common style of code:
//
//   - what is passed into a module lives until the module returns, because the caller's frame holds it;
//   - what is used once lives until then: x = f(x), or an expression's temporary;
//   - what is used twice or more is a variable of its own, such as a skip connection. It lives to
//     the end of the function that made it, unless its last use is one that replaces it: an
//     operator whose result has the same shape (x = x + f(x)).
func (p *Program) lifetimes() (ends [][]ValueID, unread map[int]int32) {
	spans := p.scopeSpans()
	n := len(p.Values)
	made, last := make([]int32, n), make([]int32, n)
	owner := make([]int32, n) // the innermost scope that made the value and reads it
	for i := range made {
		made[i] = -1
	}
	reads := func(f func(i int32, v ValueID)) {
		for i := range p.Calls {
			for j, v := range p.Calls[i].In {
				if v != NoValue && made[v] >= 0 && !slices.Contains(p.Calls[i].In[:j], v) {
					f(int32(i), v)
				}
			}
		}
	}
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			if v != NoValue {
				made[v], last[v], owner[v] = int32(i), int32(i), p.Calls[i].Scope
			}
		}
	}
	reads(func(i int32, v ValueID) {
		last[v] = max(last[v], spans.enteredAfter(i, made[v]))
		owner[v] = p.commonScope(owner[v], p.Calls[i].Scope)
	})
	// Uses as the owner's function sees them: a module that is called counts once.
	uses, latest := make([]int32, n), make([]int32, n)
	for i := range latest {
		latest[i] = -1
	}
	reads(func(i int32, v ValueID) {
		if step := spans.step(i, owner[v]); step > latest[v] {
			uses[v]++
			latest[v] = step
		}
	})
	reads(func(i int32, v ValueID) {
		if uses[v] > 1 && i == last[v] && !p.replaces(&p.Calls[i], v) {
			last[v] = spans.end(i, owner[v])
		}
	})
	reads(func(i int32, v ValueID) {
		if p.Calls[made[v]].Op == "cat" && p.Calls[made[v]].Scope == owner[v] && p.Calls[i].Scope != owner[v] && spans.enteredAfter(i, made[v]) == last[v] && p.Scopes[owner[v]].Parent >= 0 {
			last[v] = spans.end(i, owner[v])
		}
	})
	for _, v := range p.Outputs {
		last[v] = -1
	}
	// What the innermost functions hold goes first, and that was made last.
	ends = make([][]ValueID, len(p.Calls))
	for v := n - 1; v >= 0; v-- {
		if i := last[v]; made[v] >= 0 && i >= 0 {
			ends[i] = append(ends[i], ValueID(v))
		}
	}
	unread = map[int]int32{}
	for i := range p.Calls {
		if c := &p.Calls[i]; slices.Contains(unpacked, c.Op) && slices.Contains(c.Out, NoValue) {
			unread[i] = int32(len(p.Calls) - 1)
			if c.Scope >= 0 && p.Scopes[c.Scope].Parent >= 0 {
				unread[i] = spans.end(int32(i), p.Scopes[c.Scope].Parent)
			}
		}
	}
	return ends, unread
}

// replaces reports whether a call's result is likely assigned to the variable of its argument.
func (p *Program) replaces(c *Call, v ValueID) bool {
	return len(c.Out) == 1 && c.Out[0] != NoValue && slices.Equal(p.Values[c.Out[0]].Shape, p.Values[v].Shape)
}

// commonScope returns the innermost scope around both.
func (p *Program) commonScope(a, b int32) int32 {
	depth := func(s int32) (d int) {
		for ; s >= 0; s = p.Scopes[s].Parent {
			d++
		}
		return d
	}
	da, db := depth(a), depth(b)
	for a != b {
		if da >= db {
			a = p.Scopes[a].Parent
			da--
		} else {
			b = p.Scopes[b].Parent
			db--
		}
	}
	return a
}

// spans tell, for every call and each module around it, where the run of calls that belong to that
// module's forward begins and ends. They form a tree, as the modules do.
type spans struct {
	list  []span
	inner []int32 // by call: that of the innermost module
}

type span struct {
	scope       int32
	first, last int32
	up          int32 // the span of the module around this one, -1 for the model's
}

func (p *Program) scopeSpans() spans {
	s := spans{inner: make([]int32, len(p.Calls))}
	var open []int32 // spans, the model's first
	var path []int32 // scopes around a call, the innermost first
	for i := range p.Calls {
		path = path[:0]
		for k := p.Calls[i].Scope; k >= 0; k = p.Scopes[k].Parent {
			path = append(path, k)
		}
		same := 0
		for same < len(open) && same < len(path) && s.list[open[same]].scope == path[len(path)-1-same] {
			same++
		}
		open = open[:same]
		for k := len(path) - 1 - same; k >= 0; k-- {
			up := int32(-1)
			if len(open) > 0 {
				up = open[len(open)-1]
			}
			open = append(open, int32(len(s.list)))
			s.list = append(s.list, span{path[k], int32(i), int32(i), up})
		}
		for _, k := range open {
			s.list[k].last = int32(i)
		}
		s.inner[i] = -1
		if len(open) > 0 {
			s.inner[i] = open[len(open)-1]
		}
	}
	return s
}

// enteredAfter returns the last call of the outermost module around call i that was entered after call
// from; i itself when there is none.
func (s spans) enteredAfter(i, from int32) int32 {
	end := i
	for k := s.inner[i]; k >= 0; k = s.list[k].up {
		sp := &s.list[k]
		if sp.first > from {
			end = max(end, sp.last)
		}
	}
	return end
}

// step returns where, in the forward of this module, the call or the call of a module
// around it begins.
func (s spans) step(i, scope int32) int32 {
	at := i
	for k := s.inner[i]; k >= 0; k = s.list[k].up {
		sp := &s.list[k]
		if sp.scope == scope {
			break
		}
		at = sp.first
	}
	return at
}

// end returns the last call of this module's forward around call i.
func (s spans) end(i, scope int32) int32 {
	for k := s.inner[i]; k >= 0; k = s.list[k].up {
		sp := &s.list[k]
		if sp.scope == scope {
			return sp.last
		}
	}
	return i
}
