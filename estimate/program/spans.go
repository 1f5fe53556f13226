package program

import (
	"slices"
	"strings"
)

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

// runsOf finds them.
func runsOf(p *Program) spans {
	s := spans{inner: make([]int32, len(p.Calls))}
	open := []int32{-1} // around a call, the outermost first; -1 for none
	var path []int32    // scopes around a call, the outermost first
	for i := range p.Calls {
		path = path[:0]
		for k := p.Calls[i].Scope; k >= 0; k = p.Scopes[k].Parent {
			path = append(path, k)
		}
		slices.Reverse(path)
		same := 0
		for same+1 < len(open) && same < len(path) && s.list[open[same+1]].scope == path[same] {
			same++
		}
		open = open[:same+1]
		for _, scope := range path[same:] {
			s.list = append(s.list, span{scope: scope, first: int32(i), up: open[len(open)-1]})
			open = append(open, int32(len(s.list)-1))
		}
		for _, k := range open[1:] {
			s.list[k].last = int32(i)
		}
		s.inner[i] = open[len(open)-1]
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

// frame returns the span of this module's forward around call i, -1 when there is none.
func (s spans) frame(i, scope int32) int32 {
	for k := s.inner[i]; k >= 0; k = s.list[k].up {
		if s.list[k].scope == scope {
			return k
		}
	}
	return -1
}

// A step is what a module's forward does at one place: a call of its own, or the calls of a module that it calls.
type step struct {
	first, last int32
	child       int32 // the span of the module that it calls, -1 for a call of its own
}

// steps returns by span what its module's forward does, in order.
func (s spans) steps() [][]step {
	list := make([][]step, len(s.list))
	for i, k := range s.inner {
		if k < 0 {
			continue
		}
		first := int32(i)
		for up := s.list[k].up; up >= 0 && s.list[k].first == first; k, up = up, s.list[up].up {
			list[up] = append(list[up], step{first, s.list[k].last, k})
		}
		inner := s.inner[i]
		list[inner] = append(list[inner], step{first, first, -1})
	}
	return list
}

// stepOf returns which of a forward's steps call i is in.
func stepOf(steps []step, i int32) int {
	k, found := slices.BinarySearchFunc(steps, i, func(s step, i int32) int { return int(s.first - i) })
	if !found {
		k--
	}
	return k
}

// rounds returns by step how many steps later a loop over modules does the same again, in its next round; 0 where
// nothing does. Constants that the first round begins with are no steps: output = zeros_like(x) before the loop.
func rounds(p *Program, s spans, all []step) []int {
	const maxRound = 1 << 10 // steps of a loop's body
	again := make([]int, len(all))
	var steps []step
	var at []int // by step of steps: its place in all
	for j, st := range all {
		if st.child >= 0 || len(p.Calls[st.first].In) > 0 {
			steps, at = append(steps, st), append(at, j)
		}
	}
	name := func(j int) string { return p.Scopes[s.list[steps[j].child].scope].Name }
	what := make([]string, len(steps))
	for j := range steps {
		if steps[j].child >= 0 {
			what[j] = "/" + withoutNumbers(name(j))
		} else {
			what[j] = p.Calls[steps[j].first].Op
		}
	}
	for j := 0; j < len(steps); j++ {
		if steps[j].child < 0 {
			continue
		}
		next, limit := j+1, min(len(steps), j+1+maxRound) // the same of another member of the list
		for next < limit && (what[next] != what[j] || name(next) == name(j)) {
			next++
		}
		if next == limit {
			continue
		}
		period := next - j
		lo, hi := j, next
		for lo > 0 && next < len(steps) && what[lo-1] == what[lo-1+period] {
			lo--
		}
		for hi < len(steps) && what[hi-period] == what[hi] {
			hi++
		}
		if hi-lo < 2*period {
			continue
		}
		for k := lo; k+period < hi; k++ {
			again[at[k]] = at[k+period] - at[k]
		}
		j = hi - period
	}
	return again
}

// withoutNumbers returns a module's path without the numbers that a loop counts: those of the members of lists,
// "b.0.fc", and those that TorchScript gives the members of dictionaries that are called again, "fc_1".
func withoutNumbers(path string) string {
	if !strings.ContainsAny(path, "0123456789") {
		return path
	}
	var out strings.Builder
	for part := range strings.SplitSeq(path, ".") {
		if rest := strings.TrimRight(part, "0123456789"); rest == "" || rest != part && strings.HasSuffix(rest, "_") {
			part = strings.TrimSuffix(rest, "_")
		}
		if out.Len() > 0 {
			out.WriteByte('.')
		}
		out.WriteString(part)
	}
	return out.String()
}

// homes returns by value the innermost span that makes and reads it.
func (l *liveness) homes() []int32 {
	depth := make([]int32, len(l.spans.list))
	for k, s := range l.spans.list {
		if s.up >= 0 {
			depth[k] = depth[s.up] + 1
		}
	}
	common := func(a, b int32) int32 {
		for a != b && a >= 0 && b >= 0 {
			if depth[a] >= depth[b] {
				a = l.spans.list[a].up
			} else {
				b = l.spans.list[b].up
			}
		}
		return min(a, b)
	}
	home := make([]int32, len(l.p.Values))
	for v := range l.of {
		home[v] = -1
		if i := l.of[v].made; i >= 0 {
			home[v] = l.spans.inner[i]
		}
	}
	l.eachRead(func(i int32, v ValueID) { home[v] = common(home[v], l.spans.inner[i]) })
	for v, k := range home {
		if l.of[v].made >= 0 && k >= 0 {
			l.of[v].owner = l.spans.list[k].scope
		}
	}
	return home
}
