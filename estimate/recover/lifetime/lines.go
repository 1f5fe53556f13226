package lifetime

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// An execution is what a forward does while one statement runs, once: in a loop each turn is one.
type execution struct {
	first, last int32 // calls; first > last where it makes none
	parts       []piece
	head        *pysource.Statement // what is done with the value; nil where that line was not seen
	open        bool                // not all of its text is known
	hidden      bool                // it calls a function of the program that has no line of its own
	kept        bool                // what that returns beside what is read is known
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
	apart := make([]bool, len(steps))
	for j := len(steps) - 1; j >= 0; j-- {
		switch {
		case lines[j] != 0:
		case l.takenApart(steps[j]) && (j == len(steps)-1 || !l.parted(lines[j+1])):
			apart[j] = true
		case j+1 < len(steps):
			lines[j] = lines[j+1]
		}
	}
	for j := 1; j < len(steps); j++ {
		within := j+1 < len(steps) && lines[j+1] == lines[j-1] // a function that the line calls takes it apart
		if lines[j] == 0 && (!apart[j] || within || l.parted(lines[j-1])) {
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

// takenApart reports whether a step takes a tensor apart and its line is not known: exporters make one node of the
// list that torch.split returns and of what is taken out of it (onnxscript's rewriting of SplitToSequence), which has
// none. It is of the line before or behind it if that says so, and else of a statement of its own that is not in the
// file.
func (l *lives) takenApart(st step) bool {
	c := &l.p.Calls[st.first]
	return st.child < 0 && c.Stack == 0 && program.Of(c.Op).Is(program.Parts) && len(c.Out) > 1
}

// parted reports whether a line takes a tensor apart.
func (l *lives) parted(frame int32) bool { return frame != 0 && l.p.Sources.Lines[frame-1].Parted }

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
	t := &lineSplit{l: l, line: line, frame: frame, steps: steps, list: list}
	for t.ahead < len(steps) && steps[t.ahead].child < 0 {
		t.ahead++
	}
	t.start(0)
	scope := l.p.Scopes[l.spans.list[k].scope].Name
	for j, st := range steps {
		if st.child < 0 {
			t.own++
			t.computed(j)
			continue
		}
		name := l.p.Scopes[l.spans.list[st.child].scope].Name
		if scope != "" {
			name = strings.TrimPrefix(name, scope+".")
		}
		t.called(j, name)
	}
	t.flush(len(steps))
	t.pass(len(line.Statements), len(steps))
	return t.list
}

// A lineSplit goes over the steps of one line and finds which of its statements each is of.
type lineSplit struct {
	l     *lives
	line  *pysource.Line
	frame int32
	steps []step
	ahead int     // how many steps outside of modules are before the first module, in every turn of a loop
	list  []piece // of the statements that have ended

	cur   int    // the statement
	from  int    // its first step
	own   int    // how many of its steps are calls outside of modules
	used  []bool // by place where it calls a module: whether a step was that
	loose bool   // one of them was, of another name: attention(q, self.dropout) may be a function that calls the module
	other bool   // it has a step that is a call of a module which it does not name
}

// start begins a statement.
func (t *lineSplit) start(statement int) {
	t.cur = statement
	t.used = make([]bool, len(t.line.Statements[statement].Sites))
}

// flush ends the statement before a step.
func (t *lineSplit) flush(to int) {
	if t.from == to {
		if t.l.work -= 64; t.l.work < 0 {
			return
		}
	}
	st := &t.line.Statements[t.cur]
	function := (t.loose || slices.Contains(t.used, false)) && t.own > st.Ops+1
	t.list = append(t.list, piece{t.steps[t.from:to], st, t.frame, t.line.Open && t.cur == len(t.line.Statements)-1,
		t.other || function})
	t.from, t.own, t.other, t.loose = to, 0, false, false
}

// pass goes over the statements before one, which have no steps.
func (t *lineSplit) pass(statement, step int) {
	for t.cur+1 < statement {
		t.start(t.cur + 1)
		t.flush(step)
	}
}

// computed takes a step that is a call outside of modules. Where the statement has had all of its own, the next one
// that computes anything begins.
func (t *lineSplit) computed(j int) {
	statements := t.line.Statements
	if slices.Contains(t.used, false) || t.own <= statements[t.cur].Ops {
		return
	}
	for next := t.cur + 1; next < len(statements); next++ {
		if n := &statements[next]; n.Ops > 0 || len(n.Sites) > 0 {
			t.own--
			t.flush(j)
			t.pass(next, j)
			t.start(next)
			t.own = 1
			return
		}
	}
}

// called takes a step that is a call of a module, which the line names so.
func (t *lineSplit) called(j int, name string) {
	l, line := t.l, t.line
	l.work -= int64(len(line.Statements) + len(t.used))
	s, i := line.Site(t.cur, t.used, name)
	switch {
	case i >= 0:
		if s != t.cur {
			t.flush(j)
			t.pass(s, j)
			t.start(s)
		}
		t.used[i] = true
		t.loose = t.loose || !line.Statements[s].Sites[i].Calls(name, true)
	case line.Statements[t.cur].Listed && slices.ContainsFunc(line.Statements[t.cur].Sites,
		func(at pysource.Site) bool { return at.Calls(name, true) || at.Calls(name, false) }):
	case line.Names(name) >= 0 && !line.Statements[line.Names(name)].Listed:
		t.again(j, name)
	default:
		t.other = true
	}
}

// again begins the next turn of a loop at the call of a module that the turn before has called, or at the calls outside
// of modules which every turn has before its first module.
func (t *lineSplit) again(j int, name string) {
	at := j
	if len(t.line.Statements) == 1 && t.own > t.ahead {
		for back := 0; back < t.ahead && at > t.from && t.steps[at-1].child < 0; back++ {
			at--
		}
	}
	moved := j - at
	t.own -= moved
	t.flush(at)
	t.pass(len(t.line.Statements), at)
	t.own = moved
	t.start(t.line.Names(name))
	if _, i := t.line.Site(t.cur, t.used, name); i >= 0 {
		t.used[i] = true
	}
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
	for i, p := range pieces {
		var prev *execution
		if len(list) > 0 {
			prev = &list[len(list)-1]
		}
		if p.partial() && (prev != nil && prev.open || !l.isCall(p, pieces[i+1:])) {
			if prev != nil && len(loose) == 0 && prev.open && prev.head != nil {
				at, again := l.lineNumber(prev.parts[len(prev.parts)-1]), false
				for _, q := range prev.parts {
					again = again || q.line == p.line
					if q.st == prev.head {
						at = l.lineNumber(q)
					}
				}
				if n := l.lineNumber(p); !again && (n == 0 || n > at && n-at < maxStatement) &&
					!l.begunBetween(at, n, pieces[i+1:]) {
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
		if len(loose) > 0 && p.open && l.lineNumber(loose[0]) > l.lineNumber(p) &&
			l.lineNumber(loose[0])-l.lineNumber(p) < maxStatement {
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

// lineNumber is that of a piece's line in its file, 0 where it is unknown.
func (l *lives) lineNumber(p piece) int32 {
	if p.line == 0 {
		return 0
	}
	return l.p.Sources.Frames[p.line-1].Line
}

// place is the frame of the line that a statement begins at.
func (l *lives) place(e *execution) pysource.Frame {
	for _, p := range e.parts {
		if p.st == e.head && p.line > 0 {
			return l.p.Sources.Frames[p.line-1]
		}
	}
	return pysource.Frame{}
}

// partial reports whether a piece is of a statement that another line begins.
func (p *piece) partial() bool {
	whole := p.st.Kind == pysource.Bare && (p.st.Held != "" || p.st.Inplace && !p.open)
	return (p.st.Kind == pysource.Part || p.st.Kind == pysource.Bare) && !whole
}

// begunBetween reports whether the statement that comes next begins between two lines: the second is of that one then,
// of which Python computes the inner lines first.
//
//	key = key.transpose(
//	    -1, -2
//	)
//	score = (
//	    query @ key
//	) / scale
func (l *lives) begunBetween(first, second int32, next []piece) bool {
	for i := range next {
		if p := &next[i]; !p.partial() {
			n := l.lineNumber(*p)
			return p.open && first < n && n < second
		}
	}
	return false
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
