package eager

import (
	"slices"
	"strings"
)

// An execution is what a forward does while one statement runs, once: in a loop each turn is one.
type execution struct {
	first, last int32 // calls; first > last where it makes none
	parts       []piece
	head        *statement // what is done with the value; nil where that line was not seen
	open        bool       // not all of its text is known
	hidden      bool       // it calls a function of the program that has no line of its own
}

// A piece is what one line does of a statement, without a break.
type piece struct {
	steps []step
	st    *statement
	line  int32 // the frame, 0 when unknown
	open  bool
	other bool // it does what its text does not say: there is a function of the program without a line of its own
}

// frameOf returns the line that the forward of span k is at in a step, 0 when unknown.
func (l *lives) frameOf(k int, st step) int32 {
	level := l.p.depth(l.spans.list[k].scope)
	for i := st.first; i <= st.last; i++ {
		if f := l.p.sources.at(l.p.stack(i), level); f != 0 {
			return f
		}
	}
	return 0
}

// executions returns the statements that the forward of span k runs, in order.
func (l *lives) executions(k int) []execution {
	steps := l.steps[k]
	lines := make([]int32, len(steps))
	for j, st := range steps {
		lines[j] = l.frameOf(k, st)
	}
	// What has no line an exporter made anew, of several, before what reads it.
	for j := len(steps) - 2; j >= 0; j-- {
		if lines[j] == 0 {
			lines[j] = lines[j+1]
		}
	}
	for j := 1; j < len(steps); j++ {
		if lines[j] == 0 {
			lines[j] = lines[j-1]
		}
	}
	var pieces []piece
	for from := 0; from < len(steps); {
		to := from + 1
		for to < len(steps) && lines[to] == lines[from] {
			to++
		}
		pieces = l.pieces(pieces, k, steps[from:to], lines[from])
		from = to
	}
	return l.join(pieces)
}

// pieces splits the steps that are at one line, without a break, into its statements, and these into the turns of a loop.
func (l *lives) pieces(list []piece, k int, steps []step, frame int32) []piece {
	if frame == 0 {
		return append(list, piece{steps: steps, st: &statement{kind: part}, open: true})
	}
	line := l.p.sources.lines[frame-1]
	if len(line.statements) == 0 {
		return append(list, piece{steps: steps, st: &statement{kind: part}, line: frame, open: true})
	}
	scope := l.p.Scopes[l.spans.list[k].scope].Name
	cur, from, own := 0, 0, 0
	used := make([]bool, len(line.statements[0].sites))
	other := false
	flush := func(to int) {
		if from == to {
			if l.work -= 64; l.work < 0 {
				return
			}
		}
		st := &line.statements[cur]
		function := slices.Contains(used, false) && own > st.ops+1
		list = append(list, piece{steps[from:to], st, frame, line.open && cur == len(line.statements)-1, other || function})
		from, own, other = to, 0, false
	}
	start := func(s int) {
		cur = s
		used = make([]bool, len(line.statements[s].sites))
	}
	ahead := 0 // calls before the first module in a turn
	for ahead < len(steps) && steps[ahead].child < 0 {
		ahead++
	}
	for j, st := range steps {
		if st.child < 0 {
			own++
			s := &line.statements[cur]
			if free := slices.Contains(used, false); !free && own > s.ops && cur+1 < len(line.statements) {
				for next := cur + 1; next < len(line.statements); next++ {
					if n := &line.statements[next]; n.ops > 0 || len(n.sites) > 0 {
						own--
						flush(j)
						for cur+1 < next {
							start(cur + 1)
							flush(j)
						}
						start(next)
						own = 1
						break
					}
				}
			}
			continue
		}
		name := l.p.Scopes[l.spans.list[st.child].scope].Name
		if scope != "" {
			name = strings.TrimPrefix(name, scope+".")
		}
		l.work -= int64(len(line.statements) + len(used))
		s, i := line.site(cur, used, name)
		switch {
		case i >= 0 && s == cur:
			used[i] = true
		case i >= 0:
			for flush(j); cur+1 < s; flush(j) {
				start(cur + 1)
			}
			start(s)
			used[i] = true
		case line.statements[cur].listed && slices.ContainsFunc(line.statements[cur].sites, func(at site) bool { return at.calls(name, true) || at.calls(name, false) }):
		case line.names(name) >= 0 && !line.statements[line.names(name)].listed: // once more
			at := j
			if len(line.statements) == 1 && own > ahead {
				for back := 0; back < ahead && at > from && steps[at-1].child < 0; back++ {
					at--
				}
			}
			moved := j - at
			own -= moved
			for flush(at); cur+1 < len(line.statements); flush(at) {
				start(cur + 1)
			}
			own = moved
			start(line.names(name))
			if _, i = line.site(cur, used, name); i >= 0 {
				used[i] = true
			}
		default:
			other = true
		}
	}
	flush(len(steps))
	for cur+1 < len(line.statements) {
		start(cur + 1)
		flush(len(steps))
	}
	return list
}

// site returns the first call of a module that a line has from statement cur on and that was not made yet; -1 for none.
func (line *sourceLine) site(cur int, used []bool, name string) (s, i int) {
	for _, exact := range []bool{true, false} {
		for s := cur; s < len(line.statements); s++ {
			for i, at := range line.statements[s].sites {
				if (s > cur || !used[i]) && at.calls(name, exact) {
					return s, i
				}
			}
		}
		if exact && line.exact(name) {
			break
		}
	}
	return 0, -1
}

// exact reports whether a line has a module's path.
func (line *sourceLine) exact(name string) bool {
	for s := range line.statements {
		for _, at := range line.statements[s].sites {
			if at.calls(name, true) {
				return true
			}
		}
	}
	return false
}

// names returns the first statement of a line that may call a module, -1 for none.
func (line *sourceLine) names(name string) int {
	for _, exact := range []bool{true, false} {
		for s := range line.statements {
			for _, at := range line.statements[s].sites {
				if at.calls(name, exact) {
					return s
				}
			}
		}
	}
	return -1
}

// calls reports whether a call may be that of a module by its path: self.conv, a member of self.blocks; not exactly, one
// that has a local name.
func (at site) calls(name string, exact bool) bool {
	if !exact {
		return at.path == ""
	}
	return at.path != "" && (name == at.path || strings.HasPrefix(name, at.path) && name[len(at.path)] == '.')
}

// maxStatement is over how many lines a statement is taken to go at most.
const maxStatement = 100

// join puts the lines of each statement together.
func (l *lives) join(pieces []piece) []execution {
	var list []execution
	var loose []piece // parts whose statement's first line comes later, if at all
	flush := func() {
		if len(loose) > 0 {
			list = append(list, l.execution(loose, nil, true))
			loose = nil
		}
	}
	number := func(p piece) int32 {
		if p.line == 0 {
			return 0
		}
		return l.p.sources.frames[p.line-1].Line
	}
	for _, p := range pieces {
		var prev *execution
		if len(list) > 0 {
			prev = &list[len(list)-1]
		}
		whole := p.st.kind == bare && (p.st.held != "" || p.st.inplace && !p.open)
		if (p.st.kind == part || p.st.kind == bare) && !whole {
			if prev != nil && len(loose) == 0 && prev.open && prev.head != nil {
				at, again := number(prev.parts[len(prev.parts)-1]), false
				for _, q := range prev.parts {
					again = again || q.line == p.line
					if q.st == prev.head {
						at = number(q)
					}
				}
				if n := number(p); !again && (n == 0 || n > at && n-at < maxStatement) {
					prev.add(p)
					continue
				}
			}
			if len(loose) > 0 && slices.ContainsFunc(loose, func(q piece) bool { return q.line == p.line }) && loose[len(loose)-1].line != p.line {
				flush()
			}
			loose = append(loose, p)
			continue
		}
		if len(loose) == 0 && prev != nil && len(prev.parts) > 1 && prev.head == p.st && len(p.steps) > 0 {
			prev.add(p) // the rest of an expression whose other lines came between
			continue
		}
		if len(loose) > 0 && p.open && number(loose[0]) > number(p) && number(loose[0])-number(p) < maxStatement {
			list = append(list, l.execution(append(loose, p), p.st, p.open))
			loose = nil
			continue
		}
		flush()
		list = append(list, l.execution([]piece{p}, p.st, p.open))
	}
	flush()
	return list
}

func (l *lives) execution(parts []piece, head *statement, open bool) execution {
	e := execution{first: 1, last: 0, head: head, open: open}
	for _, p := range parts {
		e.add(p)
	}
	return e
}

func (e *execution) add(p piece) {
	if n := len(p.steps); n > 0 {
		if e.first > e.last {
			e.first, e.last = p.steps[0].first, p.steps[n-1].last
		}
		e.first, e.last = min(e.first, p.steps[0].first), max(e.last, p.steps[n-1].last)
	}
	e.parts, e.hidden = append(e.parts, p), e.hidden || p.other
}
