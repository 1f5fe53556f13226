package lifetime

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// variables lets live on what has a name of its own in the common style of code, though it is used once:
//
//   - what multiplies another activation, attn @ v or scaled_dot_product_attention(q, k, v): the names are not assigned
//     again before the function returns;
//   - what is taken out of a tuple, q, k, v = qkv.unbind(0) or x1, x2 = x.chunk(2): see unpacking;
//   - the argument of a projection that is then unpacked, qkv = self.qkv(x): x is assigned again by what attention
//     makes;
//   - what an embedding makes, inputs_embeds = self.embed_tokens(ids): the layers' variable is another one;
//   - the parts of a list that modules made and cat joins: the list is a variable; see beside for its end;
//   - the argument of a module whose result a function takes, x = F.relu(self.conv(x)): x is assigned when both are
//     done;
//   - what is made larger and joined with a skip connection, x = self.dec(torch.cat([self.up(x), skip], 1)): see
//     joined;
//   - the first operand of a sum that a norm takes, x = self.norm(x + y): see summed;
//   - the argument of norms and activations before a convolution, x = self.conv2(self.relu2(self.norm2(x))), where a
//     function begins with them: see preactivation.
//
// In a loop over modules each of them lives until the next round assigns it.
func (l *lives) variables() {
	l.eachRead(func(i int32, v program.ValueID) {
		if c := &l.p.Calls[i]; c.Scope == l.owner[v] && program.Of(c.Op).Is(program.Product) && l.several(c) {
			l.hold(l.named(v), factor)
		}
	})
	l.unpacking()
	for i := range l.p.Calls {
		switch c := &l.p.Calls[i]; {
		case c.Op == "linear":
			l.projection(int32(i))
		case c.Op == "cat":
			l.list(c)
		case program.Of(c.Op).Is(program.Table):
			l.embedding(c.Out[0], int32(i))
		}
	}
	for k, steps := range l.steps {
		if l.p.Scopes[l.spans.list[k].scope].Cut {
			continue
		}
		l.nested(steps)
		l.summed(steps)
		if l.takes(preactivated) {
			l.preactivation(steps)
		}
		l.joined(steps)
	}
}

// several reports whether a call reads more than one activation.
func (l *lives) several(c *program.Call) bool {
	one := program.NoValue
	for _, v := range c.In {
		if v != program.NoValue && l.made[v] >= 0 {
			if one != program.NoValue && v != one {
				return true
			}
			one = v
		}
	}
	return false
}

// named returns the value that has a name: v, or what a copy or a view without a value of the graph was made of.
func (l *lives) named(v program.ValueID) program.ValueID {
	for l.p.Values[v].Name == "" {
		c := &l.p.Calls[l.made[v]]
		if len(c.In) == 0 { // a tensor that is filled
			break
		}
		if x := c.In[0]; !program.Of(c.Op).Is(program.Look) || x == program.NoValue || l.made[x] < 0 || l.owner[x] != l.owner[v] {
			break
		}
		v = c.In[0]
	}
	return v
}

// hold lets a value live to the end of its function, or until the next round of a loop makes it again.
func (l *lives) hold(v program.ValueID, r *Rule) {
	if l.p.Scopes[l.owner[v]].Cut {
		return
	}
	k := l.spans.frame(l.made[v], l.owner[v])
	if k < 0 {
		return
	}
	end := l.spans.list[k].last
	if e := l.nextRound(k, v); e >= l.last[v] && l.takes(nextTurn) {
		if end = e; l.takes(r) {
			l.chosen = append(l.chosen, choice{nextTurn, v, end})
		}
	}
	l.keep(v, end, r)
}

// nextRound returns the last call of the step that makes in the next round of a loop what v is in this one, -1 where
// there is none.
func (l *lives) nextRound(k int32, v program.ValueID) int32 {
	if l.again[k] == nil {
		l.again[k] = rounds(l.p, l.spans, l.steps[k])
	}
	at := stepOf(l.steps[k], l.made[v])
	if period := l.again[k][at]; period > 0 {
		return l.steps[k][at+period].last
	}
	return -1
}

// listed reports whether a value is in a list that a module which has call i reads: a loop made it, whose next round
// gave its name to another before. It lives as long as the list, whatever is made of it: skips.append(x) in the one
// loop, s = self.gate(x, s) in the other.
func (l *lives) listed(v program.ValueID, i int32) bool {
	k := l.spans.frame(l.made[v], l.owner[v])
	if k < 0 || l.p.Calls[i].Scope == l.owner[v] {
		return false
	}
	e := l.nextRound(k, v)
	return e >= 0 && e < i
}

// unpacking lets live on what is taken out of a tuple. The names go on through what has one of them as its only
// argument, k = k * scale, and end where two activations meet or a function of activation reads one, F.silu(x1) * x2.
// Through modules they go on where there are several, which take statements of their own; one alone is part of an
// expression: cat([x1, self.branch(x2)]).
func (l *lives) unpacking() {
	p := l.p
	const none, name, expression = 0, 1, 2
	is := make([]uint8, len(p.Values))
	through := map[int32]program.ValueID{} // by call that makes a module's result: the name that the module was called with
	for i := range p.Calls {
		c := &p.Calls[i]
		if program.Of(c.Op).Is(program.Parts) && len(c.Out) > 1 || c.Op == "select" && c.In[0] != program.NoValue &&
			l.picks[c.In[0]] > 1 {
			for _, v := range c.Out {
				if v != program.NoValue {
					is[v] = name
				}
			}
		}
		several := l.several(c)
		for _, v := range c.In {
			if v == program.NoValue || is[v] == none {
				continue
			}
			if c.Scope != l.owner[v] {
				if out, made := l.throughModule(int32(i), v); out != program.NoValue {
					through[made] = v
				}
				continue
			}
			switch {
			case several && is[v] == expression:
			case several || program.Of(c.Op).Is(program.Nonlinearity):
				l.hold(l.named(v), unpacked)
			case len(c.Out) == 1 && c.Out[0] != program.NoValue && sameSize(p, c.Out[0], v):
				is[c.Out[0]] = is[v]
			default:
				l.hold(v, unpacked)
			}
		}
		if v, ok := through[int32(i)]; ok {
			if is[c.Out[0]] = expression; is[v] == expression {
				is[c.Out[0]] = name
			}
		}
	}
}

// throughModule returns the result of the module that call i belongs to, when v is all that it takes and the result is
// of the same size, and the call that makes it; NoValue otherwise.
func (l *lives) throughModule(i int32, v program.ValueID) (out program.ValueID, made int32) {
	k := l.spans.frame(l.made[v], l.owner[v])
	if k < 0 {
		return program.NoValue, -1
	}
	st := l.steps[k][stepOf(l.steps[k], i)]
	// once is enough for all calls of the module
	if ask := [2]int32{st.first, int32(v)}; l.reader[v] > st.last || l.asked[ask] {
		return program.NoValue, -1
	} else if l.asked == nil {
		l.asked = map[[2]int32]bool{ask: true}
	} else {
		l.asked[ask] = true
	}
	out = program.NoValue
	for j := st.first; j <= st.last; j++ {
		c := &l.p.Calls[j]
		for _, x := range c.In {
			if x != program.NoValue && x != v && l.made[x] >= 0 && l.made[x] < st.first {
				return program.NoValue, -1
			}
		}
		for _, x := range c.Out {
			if x == program.NoValue || l.reads[x] == 0 || l.reader[x] <= st.last {
				continue
			}
			if out != program.NoValue || len(c.Out) != 1 || !sameSize(l.p, x, v) {
				return program.NoValue, -1
			}
			out, made = x, j
		}
	}
	return out, made
}

// sameSize reports whether two values have as many elements.
func sameSize(p *program.Program, a, b program.ValueID) bool {
	return program.Numel(p.Values[a].Shape) == program.Numel(p.Values[b].Shape)
}

// embedding lets what an embedding makes live where another module takes it, but for recurrent ones, which take it or
// what is dropped out of it as an expression: self.lstm(self.drop(self.embed(ids))). Of those that are added or joined
// at once as many are unnamed, x = self.token(ids) + self.position(places).
func (l *lives) embedding(v program.ValueID, i int32) {
	y, _ := l.looks(v, i)
	for l.reads[y] == 1 && l.p.Calls[l.reader[y]].Op == "dropout" && l.p.Calls[l.reader[y]].Out[0] != program.NoValue {
		y, _ = l.looks(l.p.Calls[l.reader[y]].Out[0], l.reader[y])
	}
	if r := l.reader[v]; l.reads[v] > 0 && l.p.Calls[r].Scope != l.owner[v] &&
		(l.reads[y] == 0 || !program.Of(l.p.Calls[l.reader[y]].Op).Is(program.Tuple)) {
		l.hold(v, embedded)
	}
}

// projection lets the argument of a projection that is then unpacked live until a product of its size is made and
// looked at as what x is assigned to, x = (attn @ v).transpose(1, 2).reshape(B, N, C); to the end of the function
// without one.
func (l *lives) projection(i int32) {
	c := &l.p.Calls[i]
	x, y := c.In[0], c.Out[0]
	if !l.takes(projected) || x == program.NoValue || y == program.NoValue || l.made[x] < 0 || l.owner[x] != l.owner[y] ||
		l.reads[x] != 1 {
		return
	}
	if y, _ = l.looks(y, i); l.picks[y] < 2 && (l.reads[y] != 1 || !program.Of(l.p.Calls[l.reader[y]].Op).Is(program.Parts)) {
		return
	}
	k := l.spans.frame(i, l.owner[x])
	if k < 0 {
		return
	}
	for j := i + 1; j <= l.spans.list[k].last; j++ {
		d := &l.p.Calls[j]
		if program.Of(d.Op).Is(program.Product) && d.Scope == l.owner[x] && d.Out[0] != program.NoValue && sameSize(l.p, d.Out[0], x) {
			_, end := l.looks(d.Out[0], j)
			l.keep(x, end, projected)
			return
		}
	}
	l.hold(x, projected)
}

// looks follows a value that call i makes through what only looks at it differently, and returns the last of them with
// the call that makes it.
func (l *lives) looks(v program.ValueID, i int32) (program.ValueID, int32) {
	for l.reads[v] == 1 {
		c := &l.p.Calls[l.reader[v]]
		if !program.Of(c.Op).Is(program.Look) || c.Out[0] == program.NoValue {
			break
		}
		v, i = c.Out[0], l.reader[v]
	}
	return v, i
}

// list lets the parts of a list live on that modules made and cat joins. Two are more often named one by one,
// cat([x, skip]), and of what functions make, an expression may make a list. Python evaluates an expression from the
// left, so one that joins what was made last first has a list turned round, torch.cat(all_hidden_states[::-1], dim=1).
func (l *lives) list(c *program.Call) {
	modules, once, turned := 0, 0, true
	for i, v := range c.In {
		if v == program.NoValue || l.made[v] < 0 || l.owner[v] != c.Scope || i > 0 && l.made[v] >= l.made[c.In[i-1]] {
			turned = false
			break
		}
	}
	for _, v := range c.In {
		if v != program.NoValue && l.made[v] >= 0 && l.owner[v] == c.Scope && l.p.Calls[l.made[v]].Scope != c.Scope {
			modules++
			if l.reads[v] == 1 {
				once++
			}
		}
	}
	if len(c.In) < 3 || !turned && (modules < 2 || once == 1 && l.beside(c)) {
		return
	}
	for _, v := range c.In {
		if v != program.NoValue && l.made[v] >= 0 && l.owner[v] == c.Scope {
			l.hold(v, joinedList)
		}
	}
}

// beside reports whether the last part of what cat joins stands beside the list: nothing else reads it, and the module
// that makes it reads none of the other parts, torch.cat(skips + [self.up(x)], 1). What a list goes on with is made of
// what it has: ys.append(m(ys[-1])).
func (l *lives) beside(c *program.Call) bool {
	v := c.In[len(c.In)-1]
	if v == program.NoValue || l.made[v] < 0 || l.reads[v] != 1 {
		return false
	}
	k := l.spans.frame(l.made[v], c.Scope)
	if k < 0 {
		return false
	}
	st := l.steps[k][stepOf(l.steps[k], l.made[v])]
	for i := st.first; i <= st.last; i++ {
		for _, x := range l.p.Calls[i].In {
			if x != program.NoValue && slices.Contains(c.In, x) {
				return false
			}
		}
	}
	return st.child >= 0
}
