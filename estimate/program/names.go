package program

import (
	"slices"
	"strings"
)

// followNames lets live what the names that a program's lines bind hold, by Python's rules: the value of an expression
// is a temporary until the statement ends; then it has a name until that is bound again, or the forward returns. What a
// line reads that has none of its names has one that was bound on a line which computes nothing: shortcut = x.
//
// Of functions other than forward the lines are not known, only of those that call them. What is made and read within
// one statement that calls such a function is left to guesses, at most to the end of the statement.
func (l *liveness) followNames() {
	guessed := slices.Clone(l.of)
	const maxWork = 256 // by call, value and module; real programs take a fiftieth
	l.work = int64(maxWork) * int64(len(l.p.Calls)+len(l.p.Values)+len(l.spans.list))
	l.lists = make([][]ValueID, len(l.spans.list))
	homes := l.homes()
	for v := range l.of {
		l.of[v].end = max(l.of[v].made, 0)
	}
	l.eachRead(func(i int32, v ValueID) {
		l.of[v].end = max(l.of[v].end, l.spans.enteredAfter(i, l.of[v].made))
	})
	for v := range l.of {
		l.of[v].seen = 0
	}
	output := make([]bool, len(l.p.Values))
	for _, v := range l.p.Outputs {
		output[v] = true
	}
	for k := len(l.spans.list) - 1; k >= 0; k-- {
		n := &namespace{l: l, first: l.spans.list[k].first, at: l.spans.list[k].first - 1, by: map[string]*name{}, output: output}
		list := l.executions(int32(k))
		for i := range list {
			n.run(&list[i])
		}
		n.returns(l.spans.list[k].last)
		l.lists[k] = n.appended()
		if l.work < 0 { // no program that somebody wrote
			l.of = guessed
			return
		}
		for i := range list {
			if list[i].hidden {
				l.hiddenIn(&list[i], int32(k), homes, guessed)
			}
		}
	}
}

// hiddenIn lets live by guesses what only one statement makes and reads, where that calls a function of which no line
// is known.
func (l *liveness) hiddenIn(e *execution, k int32, homes []int32, guessed []life) {
	for i := e.first; i <= e.last; i++ {
		for _, v := range l.p.Calls[i].Out {
			if x := &l.of[v]; v != NoValue && homes[v] == k && x.reader <= e.last {
				x.open, x.end = true, max(x.end, min(guessed[v].end, e.last))
			}
		}
	}
}

// A name is a variable of one run of a function.
type name struct {
	has   []ValueID // what it refers to, or what the list does that it refers to
	read  int32     // the call after which it was last seen to have its value
	put   bool      // values were put into what it refers to
	bound bool      // a line that computes something bound it
}

// A namespace is the variables of one run of a forward.
type namespace struct {
	l      *liveness
	first  int32 // call of the forward
	at     int32 // the last call that was made
	names  []*name
	by     map[string]*name
	output []bool // by value
}

func (n *namespace) name(text string) *name {
	x := n.by[text]
	if x == nil {
		x = &name{read: n.first - 1}
		n.by[text] = x
		n.names = append(n.names, x)
	}
	return x
}

// run follows the names through one execution of a statement.
func (n *namespace) run(e *execution) {
	if n.l.work < 0 {
		return
	}
	if e.first > e.last {
		n.rename(e)
		return
	}
	n.resolve(e)
	n.passed(e)
	n.at = e.last
	s := e.says
	if s == nil {
		return
	}
	made := n.results(e)
	switch {
	case s.Held != "" && s.Kind == Binding && n.writes(e, n.by[s.Held]):
		n.bind(s.Held, e.last, made)
	case s.Held != "":
		n.put(s.Held, made)
	case s.Kind == Augment || s.Kind == Binding && !s.Spread:
		for _, target := range s.Targets {
			n.bind(target, e.last, made)
		}
	case s.Kind == Binding:
		for i, target := range s.Targets {
			switch from := min(i, len(made)); {
			case i == len(s.Targets)-1:
				n.bind(target, e.last, made[from:])
			default:
				n.bind(target, e.last, made[from:min(i+1, len(made))])
			}
		}
	case s.Kind == Bare && s.Inplace && len(s.Reads) > 0:
		n.bind(s.Reads[0], e.last, made)
	default:
		for _, target := range s.Targets { // (y := f(x))
			n.bind(target, e.last, made)
		}
	}
}

// rename follows the names through a statement that computes nothing: y = x, xs.append(x).
func (n *namespace) rename(e *execution) {
	s := e.says
	if s == nil {
		return
	}
	if x := n.by[s.Copies]; s.Kind == Binding && x != nil {
		for _, target := range s.Targets {
			n.bind(target, n.at, slices.Clone(x.has))
		}
	}
	for _, text := range s.Reads {
		if x := n.by[text]; s.Kind == Bare && s.Held != "" && x != nil && text != s.Held {
			n.put(s.Held, x.has)
		}
	}
}

// resolve finds the names of what a statement reads. What none of its names has, one has that was bound on a line which
// computes nothing: the first that has nothing else which the statement reads, those before all that have nothing.
func (n *namespace) resolve(e *execution) {
	reads := n.reads(e)
	if len(reads) == 0 {
		return
	}
	n.l.stamp++
	stamp := n.l.stamp
	for _, v := range reads {
		n.l.of[v].seen = stamp
	}
	n.l.stamp++
	var unbound, stale []*name
	asked := map[*name]bool{}
	for _, s := range e.parts {
		for _, text := range s.says.Reads {
			x := n.name(text)
			if asked[x] {
				continue
			}
			asked[x] = true
			n.l.work -= int64(len(x.has)) + 1
			known := false
			for _, v := range x.has {
				if seen := &n.l.of[v].seen; *seen >= stamp {
					*seen, known = n.l.stamp, true
				}
			}
			switch {
			case known:
				x.read = e.last
			case len(x.has) == 0:
				unbound = append(unbound, x)
			default:
				stale = append(stale, x)
			}
		}
	}
	free := append(unbound, stale...)
	for _, v := range reads {
		if n.l.of[v].seen != stamp || len(free) == 0 {
			continue
		}
		x := free[0]
		if len(free) > 1 {
			free = free[1:]
		}
		if x.read == e.last { // one more of a list
			x.has = append(x.has, v)
			continue
		}
		n.replace(x, max(n.l.of[v].made, x.read), []ValueID{v})
		x.read = e.last
	}
}

// appended returns what a forward only puts into a list that no line of it begins: one of its own, or its caller's.
func (n *namespace) appended() (values []ValueID) {
	for _, x := range n.names {
		if x.put && !x.bound {
			values = append(values, x.has...)
		}
	}
	return values
}

// passed lets a list have what a module puts into it that it is passed to, y = self.blocks(x, output): the last name
// that the line reads and no line bound that computes something, output = [x].
func (n *namespace) passed(e *execution) {
	for _, p := range e.parts {
		for _, st := range p.steps {
			if st.child < 0 || len(n.l.lists[st.child]) == 0 {
				continue
			}
			for i, text := range slices.Backward(p.says.Reads) {
				if x := n.by[text]; i > 0 && x != nil && !x.bound {
					n.put(text, n.l.lists[st.child])
					break
				}
			}
		}
	}
}

// bind lets a name have values from the end of a call on.
func (n *namespace) bind(text string, at int32, values []ValueID) {
	if text == "" { // something holds them that has no name
		n.put(text, values)
		return
	}
	n.name(text).bound = true
	n.replace(n.name(text), at, values)
}

func (n *namespace) replace(x *name, at int32, values []ValueID) {
	n.l.work -= int64(len(x.has) + len(values))
	for _, v := range x.has {
		n.until(v, at)
	}
	x.has = slices.Clone(values)
}

// put adds values to what a name has.
func (n *namespace) put(text string, values []ValueID) {
	x := n.name(text)
	x.put = true
	n.l.work -= int64(len(values))
	x.has = append(x.has, values...)
}

// returns lets live what names have to the end of the forward.
func (n *namespace) returns(end int32) {
	for i, x := range n.names {
		for _, v := range x.has {
			n.until(v, end)
			if of := &n.l.of[v]; of.made >= n.first && of.rank == 0 && of.end == end {
				of.rank = int32(i) + 1
			}
		}
	}
}

// until lets a value that the forward made live to a call.
func (n *namespace) until(v ValueID, end int32) {
	if x := &n.l.of[v]; x.made >= n.first {
		x.end = max(x.end, end)
	}
}

// reads returns what a statement reads that was there before it, in the order in which it does.
func (n *namespace) reads(e *execution) (list []ValueID) {
	n.l.stamp++
	for i := e.first; i <= e.last; i++ {
		for _, v := range n.l.p.Calls[i].In {
			x := &n.l.of[v]
			if v == NoValue || x.made >= e.first || x.seen == n.l.stamp {
				continue
			}
			x.seen = n.l.stamp
			if x.made >= 0 || n.l.p.Values[v].Kind == InputValue {
				list = append(list, v)
			}
		}
	}
	return list
}

// results returns what a statement makes that is read after it, in order.
func (n *namespace) results(e *execution) (made []ValueID) {
	for i := e.first; i <= e.last; i++ {
		for _, v := range n.l.p.Calls[i].Out {
			if v != NoValue && (n.l.of[v].reader > e.last || n.output[v]) {
				made = append(made, v)
			}
		}
	}
	return made
}

// writes reports whether a statement computes what a name has anew, in part: x[:, i] = y.
func (n *namespace) writes(e *execution, x *name) bool {
	c := &n.l.p.Calls[e.last]
	return x != nil && len(c.In) > 0 && len(c.Out) == 1 && c.Out[0] != NoValue && slices.Contains(x.has, c.In[0]) &&
		slices.Equal(n.l.p.Values[c.In[0]].Shape, n.l.p.Values[c.Out[0]].Shape)
}

// An execution is what a forward does while one statement runs, once: in a loop each turn is one.
type execution struct {
	first, last int32 // calls; first > last where it makes none
	says        *Statement
	line        int32 // of says; 0 where the line that begins the statement was not seen, and then says is nil
	parts       []part
	hidden      bool // it calls a function of the program that has no line of its own
}

// A part is what one line does of a statement, without a break.
type part struct {
	steps  []step
	says   *Statement
	line   int32
	hidden bool
}

// mostLines is over how many lines a statement is taken to go at most.
const mostLines = 100

// executions returns the statements that the forward of span k runs, in order.
func (l *liveness) executions(k int32) (list []execution) {
	steps := l.steps[k]
	level := l.p.Depth(l.spans.list[k].scope)
	frames := make([]int32, len(steps))
	for j, st := range steps {
		frames[j] = l.frameOf(st, level)
	}
	for j := len(steps) - 2; j >= 0; j-- { // what has no line an exporter made anew, before what reads it
		if frames[j] == 0 {
			frames[j] = frames[j+1]
		}
	}
	for from := 0; from < len(steps); {
		to := from + 1
		for to < len(steps) && (frames[to] == frames[from] || frames[to] == 0) {
			to++
		}
		if frames[from] == 0 {
			list = append(list, execution{first: steps[from].first, last: steps[to-1].last})
		} else {
			for _, p := range l.turns(k, steps[from:to], &l.p.Lines[frames[from]-1]) {
				list = join(list, p)
			}
		}
		from = to
	}
	for i := range list {
		list[i].measure()
	}
	return list
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

// turns splits the steps that are at one line, without a break, into its statements, and these into the turns of a loop:
// one begins where the line calls a module again that it has called as often as its text says, or another of the same
// list.
func (l *liveness) turns(k int32, steps []step, frame *Frame) []part {
	t := lineSplit{steps: steps, line: frame.Line}
	for t.ahead < len(steps) && steps[t.ahead].child < 0 {
		t.ahead++
	}
	scope := l.p.Scopes[l.spans.list[k].scope].Name
	t.start(frame.Says)
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
		t.called(j, path, frame.Says)
	}
	t.flush(len(steps))
	t.pass(nil)
	return t.list
}

// A lineSplit goes over the steps of one line and finds which of its statements each is of.
type lineSplit struct {
	steps []step
	line  int32
	ahead int // how many steps outside of modules every turn has before its first module
	list  []part

	says  *Statement // the statement that steps are of
	from  int        // its first step
	own   int        // how many of its steps are calls outside of modules
	used  []bool     // by call that its text says: whether a step was that
	first string     // the module that it called first, without the numbers of lists
	other bool       // it has a step that is a call of a module which it does not name
}

func (t *lineSplit) start(s *Statement) {
	t.says, t.used, t.own, t.first, t.other = s, make([]bool, len(s.Calls)), 0, "", false
}

// flush ends the statement before a step.
func (t *lineSplit) flush(to int) {
	function := slices.Contains(t.used, false) || slices.Contains(t.says.Calls, "")
	t.list = append(t.list, part{t.steps[t.from:to], t.says, t.line, t.other || function && t.own > t.says.Ops+1})
	t.from = to
}

// pass goes over the statements up to one, which compute nothing.
func (t *lineSplit) pass(to *Statement) {
	for s := t.says.Next; s != nil && s != to; s = s.Next {
		t.list = append(t.list, part{says: s, line: t.line})
	}
}

// computed takes a step outside of modules. Where the statement has had all of its own, the next one that computes
// anything begins.
func (t *lineSplit) computed(j int) {
	t.own++
	if t.own <= t.says.Ops || slices.Contains(t.used, false) {
		return
	}
	for s := t.says.Next; s != nil; s = s.Next {
		if s.Ops > 0 || len(s.Calls) > 0 {
			t.own--
			t.flush(j)
			t.pass(s)
			t.start(s)
			t.own = 1
			return
		}
	}
}

// called takes a step that calls a module.
func (t *lineSplit) called(j int, path string, begin *Statement) {
	call, again := t.says.call(path, t.used)
	if call < 0 {
		for s := t.says.Next; s != nil; s = s.Next {
			if n, _ := s.call(path, make([]bool, len(s.Calls))); n >= 0 {
				t.flush(j)
				t.pass(s)
				t.start(s)
				call = n
				break
			}
		}
	}
	plain := withoutNumbers(path)
	if n, _ := begin.call(path, make([]bool, len(begin.Calls))); call < 0 && n >= 0 &&
		(t.says != begin || again && (t.first == plain || begin.CallsModule(path))) && !t.says.Listed {
		at := j
		if t.says == begin && t.own > t.ahead {
			at = max(j-t.ahead, t.from)
		}
		for at < j && t.steps[at].child >= 0 {
			at++
		}
		moved := j - at
		t.own -= moved
		t.flush(at)
		t.pass(nil)
		t.start(begin)
		t.own, call = moved, n
	}
	switch {
	case call >= 0:
		t.used[call] = true
		if t.first == "" {
			t.first = plain
		}
	case !t.says.Listed:
		t.other = true
	}
}

// CallsModule reports whether a statement calls a module by its path.
func (s *Statement) CallsModule(path string) bool {
	return slices.ContainsFunc(s.Calls, func(at string) bool { return isCall(at, path) })
}

// isCall reports whether a call is that of a module: self.conv, or a member of self.blocks.
func isCall(at, path string) bool {
	return at != "" && (path == at || strings.HasPrefix(path, at) && path[len(at)] == '.')
}

// call returns which of a statement's calls may be that of a module and was not made yet, -1 for none, and whether one
// that was made may be.
func (s *Statement) call(path string, used []bool) (at int, again bool) {
	for _, exact := range []bool{true, false} {
		for i, c := range s.Calls {
			if exact && !isCall(c, path) || !exact && c != "" {
				continue
			}
			if !used[i] {
				return i, false
			}
			again = true
		}
		if exact && again {
			break
		}
	}
	return -1, again
}

// join puts what a line does behind the statements before it: Python computes the inner lines of a statement first.
//
//	score = (
//	    query @ key
//	) / scale
func join(list []execution, p part) []execution {
	var cur *execution
	if len(list) > 0 {
		cur = &list[len(list)-1]
	}
	if p.says.Partial() {
		if cur != nil && cur.goesOn(p) {
			cur.parts = append(cur.parts, p)
			return list
		}
		return append(list, execution{parts: []part{p}})
	}
	if len(p.steps) == 0 {
		return append(list, execution{says: p.says, line: p.line, parts: []part{p}})
	}
	if cur != nil && cur.says == p.says && len(cur.parts) > 1 && len(p.steps) > 0 && cur.line == p.line {
		cur.parts = append(cur.parts, p) // the rest of an expression whose other lines came between
		return list
	}
	e := execution{says: p.says, line: p.line}
	if cur != nil && len(cur.parts) > 0 && p.says.Open {
		from := len(cur.parts)
		for from > 0 && cur.parts[from-1].says.Partial() && cur.parts[from-1].line > p.line &&
			cur.parts[from-1].line-p.line < mostLines && (cur.line == 0 || cur.line < p.line) {
			from--
		}
		e.parts = slices.Clone(cur.parts[from:])
		if cur.parts = cur.parts[:from]; from == 0 {
			list = list[:len(list)-1]
		}
	}
	e.parts = append(e.parts, p)
	return append(list, e)
}

// goesOn reports whether a part of a statement is one of this one, of which no line comes twice.
func (e *execution) goesOn(p part) bool {
	n := len(e.parts)
	if n == 0 || e.parts[n-1].line != p.line && slices.ContainsFunc(e.parts, func(q part) bool { return q.line == p.line }) {
		return false
	}
	return e.says == nil || e.says.Open && p.line > e.line && p.line-e.line < mostLines
}

// measure sets which calls an execution makes.
func (e *execution) measure() {
	if e.parts == nil {
		return
	}
	e.first, e.last = 1, 0
	for _, p := range e.parts {
		e.hidden = e.hidden || p.hidden
		if n := len(p.steps); n > 0 {
			if e.first > e.last {
				e.first, e.last = p.steps[0].first, p.steps[n-1].last
			}
			e.first, e.last = min(e.first, p.steps[0].first), max(e.last, p.steps[n-1].last)
		}
	}
}
