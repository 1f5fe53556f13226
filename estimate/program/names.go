package program

import (
	"slices"
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
	l.followed = true
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
	s := e.says
	if n.l.work < 0 {
		return
	}
	if e.first > e.last {
		n.rename(s)
		return
	}
	if n.at = e.last; s == nil {
		return
	}
	n.resolve(e)
	n.passed(e)
	made := n.results(e)
	switch {
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
	}
}

// rename follows the names through a statement that computes nothing: y = x, xs.append(x).
func (n *namespace) rename(s *Statement) {
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
	for _, text := range e.says.Reads {
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
	for _, st := range e.steps {
		if st.child < 0 || len(n.l.lists[st.child]) == 0 {
			continue
		}
		for i, text := range slices.Backward(e.says.Reads) {
			if x := n.by[text]; i > 0 && x != nil && !x.bound {
				n.put(text, n.l.lists[st.child])
				break
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
	for _, x := range n.names {
		for _, v := range x.has {
			n.until(v, end)
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
