// Package lifetime says when the values of a program die: after which call no variable of Python refers to them any
// more.
package lifetime

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// Of returns, for each call, the activations that Python lets go after it, and for calls that return tuples the last
// call that their unread results live to. Memory is given back when the last variable that refers to a tensor is
// assigned again or its function returns. A graph does not keep the variables, so this is the common style of code:
//
//   - what is passed into a module lives until the module returns: nn.Module.__call__ has it in a tuple of arguments;
//   - what is used once lives until then: x = f(x), or an expression's temporary;
//   - what is used twice or more is a variable of its own, such as a skip connection. It lives to
//     the end of the function that made it, in a loop to where the next round assigns it, unless its last use is one
//     that replaces it: an operator whose result has the same shape (x = x + f(x)). A list may have it all the same:
//     see listed;
//   - what has a name of its own for another reason lives as that: see variables.
//
// Where the file does not say which function a call is in (Scope.Cut), nothing lives beyond what needs it.
//
// Where it says which lines of Python made the calls, these have the names: see names.
func Of(p *program.Program) (ends Endings, unread map[int]int32) {
	l := livesOf(p)
	l.guess()
	if l.traced {
		l.names()
	}
	l.kept()
	for _, v := range p.Outputs {
		l.last[v] = -1
	}
	unread = map[int]int32{}
	for i := range p.Calls {
		if c := &p.Calls[i]; program.Of(c.Op).Is(program.Tuple) && slices.Contains(c.Out, program.NoValue) {
			unread[i] = int32(len(p.Calls) - 1)
			if c.Scope >= 0 && p.Scopes[c.Scope].Parent >= 0 {
				unread[i] = l.spans.end(int32(i), p.Scopes[c.Scope].Parent)
			}
		}
	}
	for i, end := range l.unread {
		unread[int(i)] = end
	}
	return l.order(), unread
}

// guess lets live on what has a name in the common style of code.
func (l *lives) guess() {
	p, spans, last, owner := l.p, l.spans, l.last, l.owner
	n := len(p.Values)
	// Uses as the owner's function sees them: a module that is called counts once.
	uses, latest := make([]int32, n), make([]int32, n)
	for i := range latest {
		latest[i] = -1
	}
	l.eachRead(func(i int32, v program.ValueID) {
		if step := spans.step(i, owner[v]); step > latest[v] {
			uses[v]++
			latest[v] = step
		}
	})
	l.eachRead(func(i int32, v program.ValueID) {
		if uses[v] < 2 || i != last[v] {
			return
		}
		if end := l.assignedNext(v); end >= 0 {
			l.keep(v, end, usedTwice)
		} else if end := l.resized(v); end >= 0 && l.takes(resizedTurns) {
			l.keep(v, end, resizedTurns)
		} else if !replaces(p, &p.Calls[i], v) {
			l.hold(v, usedTwice)
		} else if l.listed(v, i) {
			l.hold(v, keptInList)
		}
	})
	l.variables()
	if p.With[EveryVariable.Name] {
		for v := range l.made {
			if l.made[v] >= 0 {
				l.hold(program.ValueID(v), EveryVariable)
			}
		}
	}
}

// lives are the activations of a program and how long they live, as far as it is known.
type lives struct {
	p      *program.Program
	traced bool // the lines are known that made the calls: see names
	spans  spans
	steps  [][]step
	again  [][]int // by span: see rounds; nil until asked for
	made   []int32 // by value: the call that makes it, -1 for others than activations
	last   []int32 // by value: the call after which it goes
	owner  []int32 // by value: the innermost scope that made it and reads it
	reads  []int32 // by value: how many slots read it
	reader []int32 // by value: the last call that does
	picks  []int32 // by value: how many of its parts are picked one by one, as by q, k, v = qkv[0], qkv[1], qkv[2]

	turns map[program.ValueID]*expression // by value: what made it of one of another size; see assignedNext
	asked map[[2]int32]bool               // by a module's first call and value: see throughModule
	seen  []int32                         // by value: for a walk over the calls

	// of the search for an expression, which is made for many values: see expressionOf
	derived []int32 // by value: the last search that found it to be made of the value searched for
	walk    int32   // of the search
	walked  []int32 // room for its calls

	// by value: which variable of its function holds it to the end, from 1 on; 0 for none. Nil where names are guessed
	rank   []int32
	unread map[int32]int32 // by call: the last call that its unread results live to, as far as names say
	output []bool          // by value, where lines are known
	search []int32         // by value: the last search that saw it
	stamp  int32           // of the search
	chosen []choice        // by rules that are on
	passed []choice        // by unproven ones that are not
	// where lines are known: values that they leave to guesses, and the last call that these may go to
	open map[program.ValueID]int32
	work int64 // steps that names may still take
	// where lines are known: what modules keep
	attributes []Attribute
	slots      map[attributeName]int32
}

func livesOf(p *program.Program) *lives {
	n := len(p.Values)
	l := &lives{
		p: p, traced: p.Traced(), made: make([]int32, n), last: make([]int32, n), owner: make([]int32, n),
		reads: make([]int32, n), reader: make([]int32, n), picks: make([]int32, n), seen: make([]int32, n),
	}
	if l.traced {
		l.spans = tracedSpans(p)
	} else {
		l.spans = scopeSpans(p)
	}
	l.steps = l.spans.steps()
	l.again = make([][]int, len(l.steps))
	for i := range l.made {
		l.made[i] = -1
	}
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			if v != program.NoValue {
				l.made[v], l.last[v], l.owner[v] = int32(i), int32(i), p.Calls[i].Scope
			}
		}
	}
	l.eachRead(func(i int32, v program.ValueID) {
		l.last[v] = max(l.last[v], l.spans.enteredAfter(i, l.made[v]))
		l.owner[v] = p.CommonScope(l.owner[v], p.Calls[i].Scope)
		l.reader[v] = i
		if p.Calls[i].Op == "select" {
			l.picks[v]++
		}
	})
	for i := range p.Calls {
		for _, v := range p.Calls[i].In {
			if v != program.NoValue {
				l.reads[v]++
			}
		}
	}
	return l
}

// eachRead calls f for every activation that a call reads, once for each call.
func (l *lives) eachRead(f func(i int32, v program.ValueID)) {
	seen := l.seen // one more than the last call that was seen to read it
	clear(seen)
	for i := range l.p.Calls {
		for _, v := range l.p.Calls[i].In {
			if v != program.NoValue && l.made[v] >= 0 && seen[v] != int32(i)+1 {
				seen[v] = int32(i) + 1
				f(int32(i), v)
			}
		}
	}
}

// Endings are the activations that go after each call: those after call i from first[i] to first[i+1].
type Endings struct {
	Guesses []program.Guess // by which rules some of them live as long as they do
	Passed  []program.Guess // by which unproven rules some of them would live longer
	// what modules keep, in the order in which they begin to, and in how many slots
	Attributes []Attribute
	Slots      int

	first  []int32
	values []program.ValueID
}

func (e *Endings) After(i int) []program.ValueID { return e.values[e.first[i]:e.first[i+1]] }

// order returns by call what goes after it, in CPython's order: what the innermost functions hold goes first, and of
// one function first what only the call's arguments held, then its variables in the order in which they were made.
func (l *lives) order() Endings {
	p := l.p
	ends := Endings{Guesses: l.guesses(l.chosen), Passed: l.guesses(l.passed), first: make([]int32, len(p.Calls)+1)}
	ends.Attributes, ends.Slots = l.attributesInOrder()
	ended := func(v int) bool { return l.made[v] >= 0 && l.last[v] >= 0 }
	for v := range p.Values {
		if ended(v) {
			ends.first[l.last[v]]++
		}
	}
	sum := int32(0)
	for i, n := range ends.first { // where those of the next call begin, from which they are filled in backwards
		sum += n
		ends.first[i] = sum
	}
	ends.values = make([]program.ValueID, sum)
	for v := range p.Values { // of one call the last value comes first
		if ended(v) {
			at := &ends.first[l.last[v]]
			*at--
			ends.values[*at] = program.ValueID(v)
		}
	}
	clear(l.seen) // one more than the last call that was seen to have it as an argument
	for i := range p.Calls {
		list := ends.After(i)
		if len(list) < 2 {
			continue
		}
		for _, v := range p.Calls[i].In {
			if v != program.NoValue {
				l.seen[v] = int32(i) + 1
			}
		}
		variable := func(v program.ValueID) bool {
			if l.rank != nil {
				return l.rank[v] > 0
			}
			return l.spans.end(int32(i), l.owner[v]) == int32(i) && l.seen[v] != int32(i)+1
		}
		slices.SortStableFunc(list, func(a, b program.ValueID) int {
			if d := p.Depth(l.owner[b]) - p.Depth(l.owner[a]); d != 0 {
				return d
			}
			switch va, vb := variable(a), variable(b); {
			case va && vb && l.rank != nil:
				return int(l.rank[a] - l.rank[b])
			case va && vb:
				return int(a - b)
			case va:
				return 1
			case vb:
				return -1
			}
			return 0
		})
	}
	return ends
}

// replaces reports whether a call's result is likely assigned to the variable of its argument.
func replaces(p *program.Program, c *program.Call, v program.ValueID) bool {
	return len(c.Out) == 1 && c.Out[0] != program.NoValue && slices.Equal(p.Values[c.Out[0]].Shape, p.Values[v].Shape)
}
