package program

import (
	"slices"
	"strings"
)

// An execution is what a forward does while one statement runs, without a break.
type execution struct {
	first, last int32 // calls; first > last where it makes none
	steps       []step
	says        *Statement // nil where its line is not known
	hidden      bool       // it calls a function of the program that has no line of its own
}

// executions returns the statements that the forward of span k runs, in order.
func (l *liveness) executions(k int32) (list []execution) {
	steps := l.steps[k]
	level := l.p.Depth(l.spans.list[k].scope)
	frames := make([]int32, len(steps))
	for j, st := range steps {
		frames[j] = l.frameOf(st, level)
	}
	for from := 0; from < len(steps); {
		to := from + 1
		for to < len(steps) && (frames[to] == frames[from] || frames[to] == 0) {
			to++
		}
		if frames[from] == 0 {
			list = append(list, executed(steps[from:to], nil))
		} else {
			list = append(list, l.statements(k, steps[from:to], l.p.Lines[frames[from]-1].Says)...)
		}
		from = to
	}
	return list
}

// executed is the execution of a statement in some steps.
func executed(steps []step, s *Statement) execution {
	if len(steps) == 0 {
		return execution{first: 1, says: s}
	}
	return execution{first: steps[0].first, last: steps[len(steps)-1].last, steps: steps, says: s}
}

// frameOf returns the line that a forward at a level is at in a step, 0 when unknown.
func (l *liveness) frameOf(st step, level int) int32 {
	for i := st.first; i <= st.last; i++ {
		if f := l.p.Lines.At(l.p.Calls[i].Stack, level); f != 0 {
			return f
		}
	}
	return 0
}

// statements splits the steps that are at one line, without a break, into its statements: x = self.a(x); y = self.b(x).
func (l *liveness) statements(k int32, steps []step, first *Statement) []execution {
	t := lineSplit{steps: steps}
	scope := l.p.Scopes[l.spans.list[k].scope].Name
	t.start(first)
	for j, st := range steps {
		if st.child < 0 {
			t.computed(j)
			continue
		}
		path := l.p.Scopes[l.spans.list[st.child].scope].Name
		if scope != "" {
			path = strings.TrimPrefix(path, scope+".")
		}
		l.work -= int64(len(t.says.Calls)) + 1
		t.called(j, path)
	}
	t.flush(len(steps))
	t.pass(nil)
	return t.list
}

// A lineSplit goes over the steps of one line and finds which of its statements each is of.
type lineSplit struct {
	steps []step
	list  []execution

	says  *Statement // the statement that steps are of
	from  int        // its first step
	own   int        // how many of its steps are calls outside of modules
	used  []bool     // by call that its text says: whether a step was that
	other bool       // it has a step that is a call of a module which it does not name
}

func (t *lineSplit) start(s *Statement) {
	t.says, t.used, t.own, t.other = s, make([]bool, len(s.Calls)), 0, false
}

// flush ends the statement before a step.
func (t *lineSplit) flush(to int) {
	function := slices.Contains(t.used, false) || slices.Contains(t.says.Calls, "")
	e := executed(t.steps[t.from:to], t.says)
	e.hidden = t.other || function && t.own > t.says.Ops+1
	t.list = append(t.list, e)
	t.from = to
}

// pass goes over the statements up to one, which compute nothing.
func (t *lineSplit) pass(to *Statement) {
	for s := t.says.Next; s != nil && s != to; s = s.Next {
		t.list = append(t.list, executed(nil, s))
	}
}

// next ends the statement before a step, which another one behind it begins with.
func (t *lineSplit) next(j int, s *Statement) {
	t.flush(j)
	t.pass(s)
	t.start(s)
}

// computed takes a step outside of modules. Where the statement has had all of its own, the next one that computes
// anything begins.
func (t *lineSplit) computed(j int) {
	if t.own++; t.own <= t.says.Ops || slices.Contains(t.used, false) {
		return
	}
	for s := t.says.Next; s != nil; s = s.Next {
		if s.Ops > 0 || len(s.Calls) > 0 {
			t.next(j, s)
			t.own = 1
			return
		}
	}
}

// called takes a step that calls a module.
func (t *lineSplit) called(j int, path string) {
	call := t.says.call(path, t.used)
	for s := t.says.Next; s != nil && call < 0; s = s.Next {
		if call = s.call(path, make([]bool, len(s.Calls))); call >= 0 {
			t.next(j, s)
		}
	}
	if call < 0 {
		t.other = true
		return
	}
	t.used[call] = true
}

// CallsModule reports whether a statement calls a module by its path.
func (s *Statement) CallsModule(path string) bool {
	return slices.ContainsFunc(s.Calls, func(at string) bool { return isCall(at, path) })
}

// isCall reports whether a call is that of a module: self.conv, or a member of self.blocks.
func isCall(at, path string) bool {
	return at != "" && (path == at || strings.HasPrefix(path, at) && path[len(at)] == '.')
}

// call returns which of a statement's calls may be that of a module and was not made yet, by its name before a call of
// a local name; -1 for none.
func (s *Statement) call(path string, used []bool) int {
	if s.CallsModule(path) {
		for i, c := range s.Calls {
			if isCall(c, path) && !used[i] {
				return i
			}
		}
		return -1
	}
	for i, c := range s.Calls {
		if c == "" && !used[i] {
			return i
		}
	}
	return -1
}
