package lifetime

import (
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// A pyName is a name in one run of a function, and what it was bound to.
type pyName struct {
	name  string
	bound []bound
	read  int32 // the call after which it was last seen to have its value
	// the one before read where a line was not seen that bound it
	before int32
	list   bool              // something was appended to it
	given  []program.ValueID // of a list: what it has that the caller made
	// of a list: how many values it had when all of them were last read, and after which call that was
	whole   int
	wholeAt int32
}

// A bound is what a name has from the end of a call on, until it is bound again.
type bound struct {
	at     int32
	values []program.ValueID
	unread []int32 // calls whose results nothing reads
	lost   bool    // the line that bound it was not seen, as it computes nothing
}

// A namespace is the names of one run of a forward.
type namespace struct {
	l     *lives
	k     int // its span
	first int32
	vars  []*pyName
	by    map[string]*pyName
	loose []program.ValueID // what something holds that was not seen, to the end
	list  []execution       // the statements that it runs
	at    int               // which of them is looked at
}

// maxWork is how many steps names takes by call, value and module at most. Real programs take a fiftieth.
const maxWork = 256

// has reports whether a list has a value, and counts the work.
func (l *lives) has(list []program.ValueID, v program.ValueID) bool {
	l.work -= int64(len(list)) + 1
	return l.work >= 0 && slices.Contains(list, v)
}

// names lets live what the names that a program's lines have bind. Python's rules: the value of an expression is a
// temporary until the statement ends; then it has a name until that is bound again, or the function returns. What a
// line reads that has none of its names has one that was bound on a line which computes nothing: shortcut = x.
//
// Of functions other than forward the lines are not known, only of those that call them. What is made and read within
// one statement is left to the style of code (see variables), at most to the end of the statement.
func (l *lives) names() {
	p := l.p
	guessed := slices.Clone(l.last)
	l.work = int64(maxWork) * int64(len(p.Calls)+len(p.Values)+len(l.spans.list))
	l.output = make([]bool, len(p.Values))
	for _, v := range p.Outputs {
		l.output[v] = true
	}
	homes := l.homes()
	l.onlyReads()
	l.rank, l.unread, l.search = make([]int32, len(p.Values)), map[int32]int32{}, make([]int32, len(p.Values))
	spaces := make([]*namespace, len(l.spans.list))
	inside := make([]program.ValueID, 0, len(p.Values)) // by span: what is made in it, at home there
	begin := make([]int, len(l.spans.list)+1)
	for v := range p.Values {
		if l.made[v] >= 0 && homes[v] >= 0 {
			begin[homes[v]+1]++
		}
	}
	for k := range l.spans.list {
		begin[k+1] += begin[k]
	}
	inside = inside[:begin[len(begin)-1]]
	next := slices.Clone(begin)
	for v := range p.Values {
		if k := homes[v]; l.made[v] >= 0 && k >= 0 {
			inside[next[k]] = program.ValueID(v)
			next[k]++
		}
	}
	for k := len(l.spans.list) - 1; k >= 0; k-- { // those that are called before those that call them
		list := l.executions(k)
		n := &namespace{l: l, k: k, first: l.spans.list[k].first, by: map[string]*pyName{}, list: list}
		spaces[k] = n
		for n.at = range list {
			n.run(&list[n.at], spaces)
		}
		n.hold()
		n.keepAttributes()
		if l.work < 0 { // no program that somebody wrote
			l.last, l.rank, l.unread, l.attributes = guessed, nil, nil, nil
			return
		}
		for _, v := range inside[begin[k]:begin[k+1]] {
			l.hiddenIn(list, v, guessed[v])
		}
	}
}

// hiddenIn lets a value live that only one statement makes and reads, where that calls a function of which no line is
// known.
func (l *lives) hiddenIn(list []execution, v program.ValueID, guess int32) {
	i, found := slices.BinarySearchFunc(list, l.made[v], func(e execution, at int32) int { return int(e.first - at) })
	if !found {
		i--
	}
	for i > 0 && list[i].first > list[i].last {
		i--
	}
	if i < 0 || !list[i].hidden || l.reader[v] > list[i].last {
		return
	}
	e := &list[i]
	limit := e.last
	if e.head != nil && e.head.Spread && !e.kept {
		limit = guess // what it returns beside what is read: attn_output, attn_weights = attention(...)
	}
	if l.open == nil {
		l.open = map[program.ValueID]int32{}
	}
	l.open[v] = limit
	l.last[v] = max(l.last[v], min(guess, limit))
}

// onlyReads takes back the guesses: what is read lives until the modules return that it was passed into.
func (l *lives) onlyReads() {
	for v, i := range l.made {
		if i >= 0 {
			l.last[v] = i
		}
	}
	l.eachRead(func(i int32, v program.ValueID) { l.last[v] = max(l.last[v], l.spans.enteredAfter(i, l.made[v])) })
}

// run follows the names through one execution of a statement.
func (n *namespace) run(e *execution, spaces []*namespace) {
	if l := n.l; l.work < 0 {
		return
	}
	if e.first > e.last { // nothing is computed
		n.rename(e.head)
		return
	}
	n.resolve(e)
	n.renewed(e)
	n.lists(e, spaces)
	n.sums(e)
	made := n.results(e)
	st := e.head
	defer n.tuples(e)
	if n.keepsWhatItMakes(e) {
		for i, v := range made { // in attributes whose names are not known
			n.bind(pysource.Self+e.parts[0].st.Sites[0].Path+"()"+strconv.Itoa(i), e.last, []program.ValueID{v})
		}
		return
	}
	if st == nil {
		return
	}
	switch {
	case st.Held != "" && st.Spread && len(st.Into) == len(made) && !slices.Contains(st.Into, ""):
		for i, name := range st.Into { // hs[k], cs[k] = cell(x)
			n.into(e, name, made[i:i+1])
		}
	case st.Held != "" && st.Kind != pysource.Augment:
		n.into(e, st.Held, made)
	case st.Attr:
		n.loose = append(n.loose, made...)
	case st.Kind == pysource.Augment && len(st.Targets) == 1 && st.Items:
		n.put(st.Targets[0], e.last, made)
	case st.Kind == pysource.Augment && len(st.Targets) == 1:
		n.bind(st.Targets[0], e.last, made)
	case st.Kind == pysource.Binding && st.Spread:
		n.unpack(e, made, spaces)
	case st.Kind == pysource.Binding:
		for _, name := range st.Targets {
			n.bind(name, e.last, made)
		}
	case st.Kind == pysource.Bare && st.Inplace && len(st.Reads) > 0:
		n.bind(st.Reads[0], e.last, made)
	case st.Kind != pysource.Binding:
		for _, name := range st.Targets { // (y := f(x))
			n.bind(name, e.last, made)
		}
	}
}

// into puts values into a container: xs.append(y), xs[i] = y. One that was read in the same place goes, hs[k] =
// f(hs[k]), and so does a tensor of which a part is computed anew.
func (n *namespace) into(e *execution, name string, values []program.ValueID) {
	x := n.by[name]
	switch {
	case x != nil && e.head.Kind == pysource.Binding && n.writes(e, x):
		n.bind(name, e.last, values)
		return
	case x != nil && slices.Contains(e.head.Renews, name):
		read := n.reads(e)
		rest := slices.DeleteFunc(slices.Clone(x.values()), func(v program.ValueID) bool { return n.l.has(read, v) })
		n.bind(name, e.last, append(rest, values...))
	default:
		n.put(name, e.last, values)
	}
	n.variable(name).list = true
}

// rename follows the names through a statement that computes nothing: y = x, xs.append(x).
func (n *namespace) rename(st *pysource.Statement) {
	if st == nil {
		return
	}
	switch x := n.by[st.Copies]; {
	case st.Kind == pysource.Binding && x != nil:
		for _, name := range st.Targets {
			n.bind(name, n.now(), x.values())
		}
	case st.Kind == pysource.Bare && st.Held != "":
		for _, name := range st.Reads {
			if x := n.by[name]; x != nil && name != st.Held {
				n.put(st.Held, n.now(), x.values())
			}
		}
	}
}

// results returns what a statement makes that is read after it, in order.
func (n *namespace) results(e *execution) (made []program.ValueID) {
	for i := e.first; i <= e.last; i++ {
		for _, v := range n.l.p.Calls[i].Out {
			if v != program.NoValue && (n.l.reader[v] > e.last || n.l.output[v]) {
				made = append(made, v)
			}
		}
	}
	return made
}

// writes reports whether a statement computes what a name has anew, in part: x[:, i] = y. So it does where the line
// before is not known by which the name has a copy, x = z.clone(), and the call that copies stands with the assignment.
func (n *namespace) writes(e *execution, x *pyName) bool {
	for i := e.first; i <= e.last; i++ {
		c := &n.l.p.Calls[i]
		if !program.Of(c.Op).Is(program.Writes) || n.l.made[c.In[0]] < e.first || n.l.p.Values[c.In[0]].Name != "" {
			continue
		}
		if copies := n.l.p.Calls[n.l.made[c.In[0]]].Op; program.Of(copies).Is(program.Same) {
			return true
		}
	}
	c := &n.l.p.Calls[e.last]
	return len(c.In) > 0 && len(c.Out) == 1 && c.Out[0] != program.NoValue && n.l.has(x.values(), c.In[0]) &&
		slices.Equal(n.l.p.Values[c.In[0]].Shape, n.l.p.Values[c.Out[0]].Shape)
}

// values returns what a name has.
func (x *pyName) values() []program.ValueID {
	if len(x.bound) == 0 {
		return nil
	}
	return x.bound[len(x.bound)-1].values
}

// now returns the call after which a name was last bound.
func (n *namespace) now() (at int32) {
	at = n.first - 1
	n.l.work -= int64(len(n.vars))
	for _, x := range n.vars {
		if k := len(x.bound); k > 0 {
			at = max(at, x.bound[k-1].at)
		}
	}
	return at
}

func (n *namespace) variable(name string) *pyName {
	x := n.by[name]
	if x == nil {
		x = &pyName{name: name, read: n.first - 1}
		n.by[name] = x
		n.vars = append(n.vars, x)
	}
	return x
}

// bind lets a name have values from the end of a call on.
func (n *namespace) bind(name string, at int32, values []program.ValueID) {
	if name == "" {
		n.loose = append(n.loose, values...)
		return
	}
	if n.l.work -= int64(len(values)); n.l.work < 0 {
		return
	}
	x := n.variable(name)
	x.bound = append(x.bound, bound{at: at, values: values})
}

// put adds values to what a name has.
func (n *namespace) put(name string, at int32, values []program.ValueID) {
	x := n.variable(name)
	if n.l.work -= 8 * int64(len(x.values())+len(values)); n.l.work < 0 { // each list is a copy
		return
	}
	x.bound = append(x.bound, bound{at: at, values: append(slices.Clip(x.values()), values...)})
}

// hold lets live what names have.
func (n *namespace) hold() {
	end := n.l.spans.list[n.k].last
	for _, x := range n.vars {
		for i, b := range x.bound {
			until := end
			if i+1 < len(x.bound) {
				until = x.bound[i+1].at
			}
			for _, v := range b.values {
				n.until(v, until)
			}
			for _, c := range b.unread {
				n.l.unread[c] = until
			}
		}
	}
	for _, v := range n.loose {
		n.until(v, end)
	}
	for i, x := range n.vars {
		for _, v := range x.values() {
			if n.l.made[v] >= n.first && n.l.rank[v] == 0 && n.l.last[v] == end {
				n.l.rank[v] = int32(i) + 1
			}
		}
	}
}

func (n *namespace) until(v program.ValueID, end int32) {
	if n.l.made[v] >= n.first {
		n.l.last[v] = max(n.l.last[v], end)
	}
}
