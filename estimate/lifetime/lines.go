package lifetime

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/pysource"
)

// An execution is what a forward does while one statement runs, once: in a loop each turn is one.
type execution struct {
	first, last int32 // calls; first > last where it makes none
	parts       []piece
	head        *pysource.Statement // what is done with the value; nil where that line was not seen
	open        bool                // not all of its text is known
	hidden      bool                // it calls a function of the program that has no line of its own
}

// A piece is what one line does of a statement, without a break.
type piece struct {
	steps []step
	st    *pysource.Statement
	line  int32 // the frame, 0 when unknown
	open  bool
	other bool // it does what its text does not say: there is a function of the program without a line of its own
}

// frameOf returns the line that the forward of span k is at in a step, 0 when unknown.
func (l *lives) frameOf(k int, st step) int32 {
	level := l.p.Depth(l.spans.list[k].scope)
	for i := st.first; i <= st.last; i++ {
		if f := l.p.Sources.At(l.p.Calls[i].Stack, level); f != 0 {
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

// pieces splits the steps that are at one line, without a break, into its statements, and these into the turns of a
// loop.
func (l *lives) pieces(list []piece, k int, steps []step, frame int32) []piece {
	if frame == 0 {
		return append(list, piece{steps: steps, st: &pysource.Statement{Kind: pysource.Part}, open: true})
	}
	line := l.p.Sources.Lines[frame-1]
	if len(line.Statements) == 0 {
		return append(list, piece{steps: steps, st: &pysource.Statement{Kind: pysource.Part}, line: frame, open: true})
	}
	scope := l.p.Scopes[l.spans.list[k].scope].Name
	cur, from, own := 0, 0, 0
	used := make([]bool, len(line.Statements[0].Sites))
	other := false
	flush := func(to int) {
		if from == to {
			if l.work -= 64; l.work < 0 {
				return
			}
		}
		st := &line.Statements[cur]
		function := slices.Contains(used, false) && own > st.Ops+1
		list = append(list, piece{steps[from:to], st, frame, line.Open && cur == len(line.Statements)-1, other || function})
		from, own, other = to, 0, false
	}
	start := func(s int) {
		cur = s
		used = make([]bool, len(line.Statements[s].Sites))
	}
	ahead := 0 // calls before the first module in a turn
	for ahead < len(steps) && steps[ahead].child < 0 {
		ahead++
	}
	for j, st := range steps {
		if st.child < 0 {
			own++
			s := &line.Statements[cur]
			if free := slices.Contains(used, false); !free && own > s.Ops && cur+1 < len(line.Statements) {
				for next := cur + 1; next < len(line.Statements); next++ {
					if n := &line.Statements[next]; n.Ops > 0 || len(n.Sites) > 0 {
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
		l.work -= int64(len(line.Statements) + len(used))
		s, i := line.Site(cur, used, name)
		switch {
		case i >= 0 && s == cur:
			used[i] = true
		case i >= 0:
			for flush(j); cur+1 < s; flush(j) {
				start(cur + 1)
			}
			start(s)
			used[i] = true
		case line.Statements[cur].Listed && slices.ContainsFunc(line.Statements[cur].Sites,
			func(at pysource.Site) bool { return at.Calls(name, true) || at.Calls(name, false) }):
		case line.Names(name) >= 0 && !line.Statements[line.Names(name)].Listed: // once more
			at := j
			if len(line.Statements) == 1 && own > ahead {
				for back := 0; back < ahead && at > from && steps[at-1].child < 0; back++ {
					at--
				}
			}
			moved := j - at
			own -= moved
			for flush(at); cur+1 < len(line.Statements); flush(at) {
				start(cur + 1)
			}
			own = moved
			start(line.Names(name))
			if _, i = line.Site(cur, used, name); i >= 0 {
				used[i] = true
			}
		default:
			other = true
		}
	}
	flush(len(steps))
	for cur+1 < len(line.Statements) {
		start(cur + 1)
		flush(len(steps))
	}
	return list
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
		return l.p.Sources.Frames[p.line-1].Line
	}
	for _, p := range pieces {
		var prev *execution
		if len(list) > 0 {
			prev = &list[len(list)-1]
		}
		whole := p.st.Kind == pysource.Bare && (p.st.Held != "" || p.st.Inplace && !p.open)
		if (p.st.Kind == pysource.Part || p.st.Kind == pysource.Bare) && !whole {
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
			if len(loose) > 0 && slices.ContainsFunc(loose, func(q piece) bool { return q.line == p.line }) &&
				loose[len(loose)-1].line != p.line {
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

func (l *lives) execution(parts []piece, head *pysource.Statement, open bool) execution {
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
