package program

import "slices"

// A GuessRow is a guess about which of several programs that are exported as one graph the graph is of. Each can be
// switched off, by Program.Without, and each choice that it makes is a Guess.
type GuessRow struct {
	Name   string // by which it is switched off and reported: "used-twice"
	Takes  string
	Source string // where code that is written so can be read; "" where it is how most code is written
}

// The guesses about Python's variables, which a graph does not keep: how most code is written. What is certain is no
// guess: arguments live until the module that they were passed to returns, and where an export has the lines of its
// program these say what its variables are.
var (
	UsedTwice = &GuessRow{"used-twice",
		"what is used twice is a variable of the function that made it, and lives to its end", ""}
	NextTurn = &GuessRow{"next-turn",
		"a variable of a loop is assigned again by the next turn: one over modules whose names differ by numbers alone, or " +
			"one that changes a tensor's size, b = x * b[..., :-1] + y * b[..., 1:]", "Blealtan/efficient-kan"}
	NamesOfAttention = &GuessRow{"names-of-attention",
		"what is taken out of a tuple, what multiplies another activation, and the argument of the projection that the " +
			"tuple is of have names: q, k, v = self.qkv(x).unbind(0); attn @ v", "timm/models/vision_transformer.py"}
	JoinedParts = &GuessRow{"joined-parts",
		"the parts that cat joins are in a list, or a decoder's variables", "torchvision/models/densenet.py"}
	OneExpression = &GuessRow{"one-expression",
		"a function of what a module returns, a norm of a sum, and norms and activations before a convolution are part of " +
			"one expression: F.relu(self.conv(x)); norm(x + y)", "torchvision/models/densenet.py"}
)

// VariableGuesses are those that Liveness makes.
var VariableGuesses = []*GuessRow{UsedTwice, NextTurn, NamesOfAttention, JoinedParts, OneExpression}

// everyVariable is no guess but the other end of all of them together: see Program.Longest.
var everyVariable = &GuessRow{}

// guess lets live on what has a name in the common style of code:
//
//   - what is used twice or more is a variable of its own, such as a skip connection. It lives to the end of the
//     function that made it, in a loop to where the next round assigns it, unless its last use is one that replaces it:
//     an operator whose result has the same shape (x = x + f(x));
//   - what multiplies another activation, attn @ v, has a name that is not assigned again before the function returns;
//   - so has what is taken out of a tuple, q, k, v = qkv.unbind(0) or x1, x2 = x.chunk(2): see unpacking;
//   - the argument of a projection that is then unpacked, qkv = self.qkv(x), lives on, as x is assigned again by what
//     attention makes;
//   - the parts of a list that modules made and cat joins: the list is a variable; see beside for its end;
//   - what is made larger and joined with a skip connection, x = self.dec(torch.cat([self.up(x), skip], 1)): see
//     joined;
//   - the argument of a module whose result a function takes, x = F.relu(self.conv(x)): x is assigned when both are
//     done;
//   - the first operand of a sum that a norm takes, x = self.norm(x + y): see summed;
//   - the argument of norms and activations before a convolution, x = self.conv2(self.relu2(self.norm2(x))), where a
//     function begins with them.
func (l *liveness) guess() {
	// Uses as the owner's function sees them: a module that is called counts once.
	uses, latest := make([]int32, len(l.of)), make([]int32, len(l.of))
	for i := range latest {
		latest[i] = -1
	}
	l.eachRead(func(i int32, v ValueID) {
		if step := l.spans.step(i, l.of[v].owner); step > latest[v] {
			uses[v]++
			latest[v] = step
		}
	})
	l.eachRead(func(i int32, v ValueID) {
		if uses[v] < 2 || i != l.of[v].end {
			return
		}
		if end := l.resized(v); end >= 0 && l.takes(NextTurn) {
			l.keep(v, end, NextTurn)
		} else if !l.replaces(i, v) {
			l.hold(v, UsedTwice)
		}
	})
	l.eachRead(func(i int32, v ValueID) {
		if c := &l.p.Calls[i]; c.Scope == l.of[v].owner && Of(c.Op).Is(Product) && l.several(c) {
			l.hold(v, NamesOfAttention)
		}
	})
	l.unpacking()
	for i := range l.p.Calls {
		switch c := &l.p.Calls[i]; c.Op {
		case "linear":
			l.projection(int32(i))
		case "cat":
			l.list(c)
		}
	}
	for k, steps := range l.steps {
		if !l.p.Scopes[l.spans.list[k].scope].Cut {
			l.nested(steps)
			l.summed(steps)
			l.preactivation(steps)
			l.joined(steps)
		}
	}
	if l.p.Longest {
		for v := range l.of {
			if l.of[v].made >= 0 {
				l.hold(ValueID(v), everyVariable)
			}
		}
	}
}

// replaces reports whether a call's result is likely assigned to the variable of its argument.
func (l *liveness) replaces(i int32, v ValueID) bool {
	c := &l.p.Calls[i]
	return len(c.Out) == 1 && c.Out[0] != NoValue && slices.Equal(l.p.Values[c.Out[0]].Shape, l.p.Values[v].Shape)
}

// hold lets a value live to the end of its function, or until the next round of a loop makes it again.
func (l *liveness) hold(v ValueID, row *GuessRow) {
	x := &l.of[v]
	if l.p.Scopes[x.owner].Cut {
		return
	}
	k := l.spans.frame(x.made, x.owner)
	if k < 0 {
		return
	}
	end := l.spans.list[k].last
	if e := l.nextRound(k, v); e >= x.end && l.takes(NextTurn) {
		if end = e; l.takes(row) {
			l.choices = append(l.choices, choice{NextTurn, v})
		}
	}
	l.keep(v, end, row)
}

// nextRound returns the last call of the step that makes in the next round of a loop what v is in this one, -1 where
// there is none.
func (l *liveness) nextRound(k int32, v ValueID) int32 {
	if l.rounds[k] == nil {
		l.rounds[k] = rounds(l.p, l.spans, l.steps[k])
	}
	at := stepOf(l.steps[k], l.of[v].made)
	if period := l.rounds[k][at]; period > 0 {
		return l.steps[k][at+period].last
	}
	return -1
}

// several reports whether a call reads more than one activation.
func (l *liveness) several(c *Call) bool {
	one := NoValue
	for _, v := range c.In {
		if l.of[v].made >= 0 {
			if one != NoValue && v != one {
				return true
			}
			one = v
		}
	}
	return false
}

// unpacking lets live on what is taken out of a tuple. The names go on through what has one of them as its only
// argument, k = k * scale, and end where two activations meet or a function of activation reads one, F.silu(x1) * x2.
func (l *liveness) unpacking() {
	is := make([]bool, len(l.of)) // by value: it has the name of a part
	for i := range l.p.Calls {
		c := &l.p.Calls[i]
		if Of(c.Op).Is(Parts) && len(c.Out) > 1 || c.Op == "select" && l.of[c.In[0]].picks > 1 {
			for _, v := range c.Out {
				is[v] = v != NoValue
			}
		}
		for _, v := range c.In {
			switch {
			case !is[v] || c.Scope != l.of[v].owner:
			case l.several(c) || Of(c.Op).Is(Nonlinearity):
				l.hold(v, NamesOfAttention)
			case len(c.Out) == 1 && c.Out[0] != NoValue && l.sameSize(c.Out[0], v):
				is[c.Out[0]] = true
			default:
				l.hold(v, NamesOfAttention)
			}
		}
	}
}

// sameSize reports whether two values have as many elements.
func (l *liveness) sameSize(a, b ValueID) bool {
	return Numel(l.p.Values[a].Shape) == Numel(l.p.Values[b].Shape)
}

// projection lets the argument of a projection that is then unpacked live until a product of its size is made and
// looked at as what x is assigned to, x = (attn @ v).transpose(1, 2).reshape(B, N, C); to the end of the function
// without one.
func (l *liveness) projection(i int32) {
	c := &l.p.Calls[i]
	x, y := c.In[0], c.Out[0]
	if x == NoValue || y == NoValue || l.of[x].made < 0 || l.of[x].owner != l.of[y].owner || l.of[x].reads != 1 {
		return
	}
	if y, _ = l.looks(y, i); l.of[y].picks < 2 && (l.of[y].reads != 1 || !Of(l.p.Calls[l.of[y].reader].Op).Is(Parts)) {
		return
	}
	k := l.spans.frame(i, l.of[x].owner)
	if k < 0 {
		return
	}
	for j := i + 1; j <= l.spans.list[k].last; j++ {
		d := &l.p.Calls[j]
		if Of(d.Op).Is(Product) && d.Scope == l.of[x].owner && d.Out[0] != NoValue && l.sameSize(d.Out[0], x) {
			_, end := l.looks(d.Out[0], j)
			l.keep(x, end, NamesOfAttention)
			return
		}
	}
	l.hold(x, NamesOfAttention)
}

// looks follows a value that call i makes through what only looks at it differently, and returns the last of them with
// the call that makes it.
func (l *liveness) looks(v ValueID, i int32) (ValueID, int32) {
	for l.of[v].reads == 1 {
		c := &l.p.Calls[l.of[v].reader]
		if !Of(c.Op).Is(Look) || c.Out[0] == NoValue {
			break
		}
		v, i = c.Out[0], l.of[v].reader
	}
	return v, i
}

// list lets the parts of a list live on that modules made and cat joins. Two are more often named one by one,
// cat([x, skip]), and of what functions make, an expression may make a list. Python evaluates an expression from the
// left, so one that joins what was made last first has a list turned round, torch.cat(all_hidden_states[::-1], dim=1).
func (l *liveness) list(c *Call) {
	modules, once, turned := 0, 0, true
	for i, v := range c.In {
		x := &l.of[v]
		if x.made < 0 || x.owner != c.Scope {
			turned = false
			continue
		}
		turned = turned && (i == 0 || x.made < l.of[c.In[i-1]].made)
		if l.p.Calls[x.made].Scope != c.Scope {
			modules++
			if x.reads == 1 {
				once++
			}
		}
	}
	if len(c.In) < 3 || !turned && (modules < 2 || once == 1 && l.beside(c)) {
		return
	}
	for _, v := range c.In {
		if l.of[v].made >= 0 && l.of[v].owner == c.Scope {
			l.hold(v, JoinedParts)
		}
	}
}

// beside reports whether the last part of what cat joins stands beside the list: nothing else reads it, and the module
// that makes it reads none of the other parts, torch.cat(skips + [self.up(x)], 1). What a list goes on with is made of
// what it has: ys.append(m(ys[-1])).
func (l *liveness) beside(c *Call) bool {
	x := &l.of[c.In[len(c.In)-1]]
	if x.made < 0 || x.reads != 1 {
		return false
	}
	k := l.spans.frame(x.made, c.Scope)
	if k < 0 {
		return false
	}
	st := l.steps[k][stepOf(l.steps[k], x.made)]
	for i := st.first; i <= st.last; i++ {
		for _, v := range l.p.Calls[i].In {
			if v != NoValue && slices.Contains(c.In, v) {
				return false
			}
		}
	}
	return st.child >= 0
}
