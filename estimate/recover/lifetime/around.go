package lifetime

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// inOrder returns what a statement makes in the order of the names that it binds to it, as far as the statements behind
// it say: of x, y = self.f(x) the module may have made first what it returns second, and a line that reads one of them
// has its name.
//
//	x, x2 = self.block(x)     # x2 is made first
//	z = self.down(x2)
func (n *namespace) inOrder(targets []string, made []program.ValueID) []program.ValueID {
	const most = 8 // names
	if len(made) < 2 || len(made) != len(targets) || len(made) > most {
		return made
	}
	may := make([][]bool, len(made)) // by value and name, nil where nothing says
	agree := true
	for i, v := range made {
		may[i] = n.namesAhead(targets, v)
		agree = agree && (may[i] == nil || may[i][i])
	}
	if agree {
		return made
	}
	ordered := make([]program.ValueID, len(made))
	var free []program.ValueID
	for i, v := range made { // what a line says is one of them
		if k := slices.Index(may[i], true); k >= 0 && !slices.Contains(may[i][k+1:], true) && ordered[k] == program.NoValue {
			ordered[k] = v
		} else {
			free = append(free, v)
		}
	}
	for k := range ordered {
		if ordered[k] == program.NoValue {
			ordered[k], free = free[0], free[1:]
		}
	}
	return ordered
}

// namesAhead returns which of the names that a statement binds a value may have, by what the line reads that reads the
// value next; nil where that has none of them.
func (n *namespace) namesAhead(targets []string, v program.ValueID) []bool {
	bound := make([]bool, len(targets)) // again
	for i := n.at + 1; i < len(n.list); i++ {
		e := &n.list[i]
		if n.l.work--; n.l.work < 0 {
			return nil
		}
		if e.first <= e.last && n.l.has(n.reads(e), v) {
			var may []bool
			for k, name := range targets {
				if name != "" && !bound[k] && slices.ContainsFunc(e.parts, func(p piece) bool {
					return slices.Contains(p.st.Reads, name)
				}) {
					if may == nil {
						may = make([]bool, len(targets))
					}
					may[k] = true
				}
			}
			return may
		}
		if e.head == nil {
			continue
		}
		for k, name := range targets {
			bound[k] = bound[k] || slices.Contains(e.head.Targets, name)
		}
	}
	return nil
}

// turn returns the call after which the turn of a loop began that a statement is in, if that is behind another call:
// the lines go back there. It returns that call where none does.
func (n *namespace) turn(after int32) int32 {
	e := &n.list[n.at]
	for i := n.at - 1; i >= 0; i-- {
		before := &n.list[i]
		if n.l.work--; n.l.work < 0 {
			break
		}
		if before.first > before.last { // it computes nothing
			continue
		}
		if before.last <= after {
			break
		}
		if here, there := n.l.place(e), n.l.place(before); here.File == there.File && here.Func == there.Func &&
			here.Line > 0 && here.Line <= there.Line {
			return before.last
		}
		e = before
	}
	return after
}

// keepsWhatItMakes reports whether a statement is the call of a method alone, self.encode(images), of which no line is
// known. What others read of what it makes is where the method put it: in attributes of the module, as all that it was
// given are tensors, and no list.
func (n *namespace) keepsWhatItMakes(e *execution) bool {
	if len(e.parts) != 1 || !e.parts[0].calls() {
		return false
	}
	reads, names := n.reads(e), e.parts[0].st.Reads
	return len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool {
		x := n.by[name]
		return x == nil || !slices.ContainsFunc(x.values(), func(v program.ValueID) bool { return n.l.has(reads, v) })
	})
}

// calls reports whether a piece is the call of a method of the module, without a line of its own, and nothing else.
func (p *piece) calls() bool {
	return p.other && !p.open && p.st.Method && p.st.Kind == pysource.Bare && !p.st.Inplace
}

// isCall reports whether a piece is such a call and a statement of its own, no argument that stands on a line of its
// own, before what the statement around it does.
func (l *lives) isCall(p piece, next []piece) bool {
	if !p.calls() {
		return false
	}
	for i := range next {
		if q := &next[i]; !q.partial() {
			at, from := l.lineNumber(p), l.lineNumber(*q)
			return !q.open || from == 0 || from > at || at-from >= maxStatement
		}
	}
	return true
}
