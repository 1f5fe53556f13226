package program

import "slices"

// Liveness says when the values of a program die: after which call no variable of Python refers to them any more.
type Liveness struct {
	After   [][]ValueID // by call: the activations that go after it
	Guesses []Guess     // by which rows some of them live as long as they do
}

// Liveness returns, for each call, the activations that Python lets go after it. Memory is given back when the last
// variable that refers to a tensor is assigned again or its function returns. A graph does not keep the variables:
//
//   - what is passed into a module lives until the module returns: nn.Module.__call__ has it in a tuple of arguments;
//   - what is used once lives until then: x = f(x), or an expression's temporary;
//   - what lives longer is guessed by the common style of code: see guess.
//
// Where the file does not say which function a call is in (Scope.Cut), nothing lives beyond what needs it. Where it says
// which lines of Python made the calls, these have the names: see followNames.
func (p *Program) Liveness() Liveness {
	l := newLiveness(p)
	l.guess()
	if p.Traced() {
		l.followNames()
	}
	for _, v := range p.Outputs {
		l.of[v].end = -1
	}
	return l.byCall()
}

// A life is how long an activation lives, as far as it is known.
type life struct {
	made   int32 // the call that makes it, -1 for others than activations
	end    int32 // the call after which it goes, -1 for never
	owner  int32 // the innermost scope that makes and reads it
	reads  int32 // how many slots read it
	reader int32 // the last call that does
	picks  int32 // how many of its parts are picked one by one, as by q, k, v = qkv[0], qkv[1], qkv[2]
	seen   int32 // of a walk over calls
	open   bool  // its lines leave how long it lives to guesses
}

// liveness are the lives of a program's activations while they are worked out.
type liveness struct {
	p       *Program
	of      []life // by value
	spans   spans
	steps   [][]step // by span
	rounds  [][]int  // by span: see spans.rounds; nil until asked for
	choices []choice
	lists   [][]ValueID             // by span: see appended
	resizes map[ValueID]*expression // by value: what made it of one of another size; see resized
	stamp   int32                   // of the last walk
	work    int64                   // steps that names may still take

	followed bool // the lives are those of the names that lines bind
}

// A choice is a guess about how long a value lives.
type choice struct {
	row   *GuessRow
	value ValueID
}

func newLiveness(p *Program) *liveness {
	l := &liveness{p: p, of: make([]life, len(p.Values)), spans: runsOf(p), resizes: map[ValueID]*expression{}}
	l.steps = l.spans.steps()
	l.rounds = make([][]int, len(l.steps))
	for v := range l.of {
		l.of[v].made = -1
	}
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			if v != NoValue {
				l.of[v] = life{made: int32(i), end: int32(i), owner: p.Calls[i].Scope}
			}
		}
	}
	for i := range p.Calls {
		for _, v := range p.Calls[i].In {
			if v != NoValue {
				l.of[v].reads++
			}
		}
	}
	l.eachRead(func(i int32, v ValueID) {
		x := &l.of[v]
		x.end = max(x.end, l.spans.enteredAfter(i, x.made))
		x.owner = p.CommonScope(x.owner, p.Calls[i].Scope)
		x.reader = i
		if p.Calls[i].Op == "select" {
			x.picks++
		}
	})
	return l
}

// eachRead calls f for every activation that a call reads, once for each call.
func (l *liveness) eachRead(f func(i int32, v ValueID)) {
	for v := range l.of {
		l.of[v].seen = 0 // one more than the last call that was seen to read it
	}
	for i := range l.p.Calls {
		for _, v := range l.p.Calls[i].In {
			if x := &l.of[v]; v != NoValue && x.made >= 0 && x.seen != int32(i)+1 {
				x.seen = int32(i) + 1
				f(int32(i), v)
			}
		}
	}
}

// takes reports whether guesses of a row are made.
func (l *liveness) takes(row *GuessRow) bool { return !l.p.Without[row.Name] }

// keep lets a value live until a call, by a guess.
func (l *liveness) keep(v ValueID, end int32, row *GuessRow) {
	if l.of[v].end < end && l.takes(row) {
		l.choices = append(l.choices, choice{row, v})
		l.of[v].end = end
	}
}

// byCall returns what goes after each call, the last value first, and the guesses that decide it.
func (l *liveness) byCall() Liveness {
	ends := Liveness{After: make([][]ValueID, len(l.p.Calls))}
	for _, c := range l.choices {
		if x := &l.of[c.value]; !l.followed || x.open {
			ends.Guesses = append(ends.Guesses, Guess{Row: c.row.Name, Origin: l.p.Calls[x.made].Origin})
		}
	}
	for v, x := range slices.Backward(l.of) {
		if x.made >= 0 && x.end >= 0 {
			ends.After[x.end] = append(ends.After[x.end], ValueID(v))
		}
	}
	return ends
}
