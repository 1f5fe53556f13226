package program

import (
	"slices"
	"strings"
)

// What is part of an expression lives until that is done: see guess.

// nested lets the argument of a module live until the functions are done that take the module's result at once.
func (l *liveness) nested(steps []step) {
	for j, st := range steps {
		if st.child < 0 {
			continue
		}
		end := st
		for _, next := range steps[j+1:] {
			c := &l.p.Calls[next.first]
			if next.child >= 0 || !Of(c.Op).Is(Nonlinearity|Wrapper) || l.of[c.In[0]].made < end.first ||
				l.of[c.In[0]].made > end.last || l.of[c.In[0]].reads != 1 {
				break
			}
			end = next
		}
		if end != st {
			l.extend(st, end.last, OneExpression)
		}
	}
}

// preactivation lets the argument of norms and activations before a convolution live until that is done, in functions
// that begin with a norm or an activation, not with a convolution. Residual and dense blocks of that kind are written
// as expressions from convolution to convolution, self.conv2(self.relu2(self.norm2(x))); those that begin with
// convolutions as a line for each module. That a norm belongs to the convolution behind it their numbers say, norm2
// and conv2; those of blocks that begin with one more norm go with the convolution before. A Sequential, whose members
// have nothing but numbers, calls them one by one.
func (l *liveness) preactivation(steps []step) {
	first := 0
	for first < len(steps) && l.kind(steps[first]) == otherModule {
		first++
	}
	if first == len(steps) || l.kind(steps[first]) != normOrActivation {
		return
	}
	for j := first; j < len(steps); j++ {
		if l.kind(steps[j]) != normOrActivation {
			continue
		}
		end := j + 1
		for end < len(steps) && l.kind(steps[end]) == normOrActivation && l.feeds(steps[end-1], steps[end]) {
			end++
		}
		if end < len(steps) && l.kind(steps[end]) == convolution && l.feeds(steps[end-1], steps[end]) &&
			l.number(steps[j]) == l.number(steps[end]) && l.number(steps[j]) != "" {
			l.extend(steps[j], steps[end].last, OneExpression)
		}
		j = end - 1
	}
}

// A moduleKind is what a step of a forward is as far as preactivation asks.
type moduleKind uint8

const (
	otherModule moduleKind = iota
	normOrActivation
	convolution
)

func (l *liveness) kind(st step) moduleKind {
	if st.child < 0 {
		return otherModule
	}
	if l.p.Calls[st.last].Op == "conv" && st.first == st.last {
		return convolution
	}
	kind := otherModule
	for i := st.first; i <= st.last; i++ {
		if !Of(l.p.Calls[i].Op).Is(ChannelNorm | Nonlinearity) {
			return otherModule
		}
		kind = normOrActivation
	}
	return kind
}

// number returns the first number in the name of a step's module, "2" of block.norm2; "" when it has none.
func (l *liveness) number(st step) string {
	name := l.p.Scopes[l.spans.list[st.child].scope].Name
	name = name[strings.LastIndexByte(name, '.')+1:]
	name = strings.TrimLeftFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	if i := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		name = name[:i]
	}
	return name
}

// feeds reports whether a step's only result is what the next one takes, and nothing else.
func (l *liveness) feeds(from, to step) bool {
	return slices.ContainsFunc(l.p.Calls[from.last].Out, func(v ValueID) bool {
		x := &l.of[v]
		return v != NoValue && x.reads == 1 && x.reader >= to.first && x.reader <= to.last
	})
}

// extend lets what a step takes from its function, and what goes when the step is done, live until another call.
func (l *liveness) extend(st step, until int32, row *GuessRow) {
	for i := st.first; i <= st.last; i++ {
		for _, v := range l.p.Calls[i].In {
			if x := &l.of[v]; v != NoValue && x.made >= 0 && x.made < st.first && x.end == st.last {
				l.keep(v, until, row)
			}
		}
	}
}

// joined lets a picture live that a decoder makes larger and joins with a skip connection, until the module has run
// that takes both: U-Nets write x = self.dec(torch.cat([self.up(x), skip], 1)), or keep the last x by another name.
// Where what follows makes the picture larger once more it is the next turn, for up, skip in ...: x =
// torch.cat([up(x), skip], 1), and x is assigned by then.
func (l *liveness) joined(steps []step) {
	p := l.p
	for j := 0; j+2 < len(steps); j++ {
		up, cat, dec := steps[j], steps[j+1], steps[j+2]
		c := &p.Calls[cat.first]
		if cat.child >= 0 || dec.child < 0 || c.Op != "cat" || len(c.In) != 2 || !l.feeds(up, cat) || !l.feeds(cat, dec) {
			continue
		}
		x := NoValue // what is made larger: all that the step takes
		for i := up.first; i <= up.last; i++ {
			for _, v := range p.Calls[i].In {
				if made := l.of[v].made; made >= 0 && made < up.first {
					x = v
				}
			}
		}
		y, z := p.Calls[up.last].Out[0], p.Calls[dec.last].Out[0]
		if x != NoValue && z != NoValue && slices.Contains(c.In, y) &&
			larger(p.Values[y].Shape, p.Values[x].Shape) && !larger(p.Values[z].Shape, p.Values[c.Out[0]].Shape) {
			l.extend(up, dec.last, JoinedParts)
		}
	}
}

// larger reports whether a picture is larger than another, in every direction.
func larger(a, b []int64) bool {
	if len(a) != len(b) || len(a) < 3 {
		return false
	}
	for i, n := range b[2:] {
		if a[i+2] <= n {
			return false
		}
	}
	return true
}

// summed lets the first operand of a sum live until the norm has returned that takes the sum: it is a variable, which
// the norm's result is assigned to, x = norm(x + y). The second is more often what a call made, norm(x + f(x)); where
// others read it too it is a variable that keeps its value, y = f(x); y = norm(y + x), as in transformers'
// models/distilbert/modeling_distilbert.py.
func (l *liveness) summed(steps []step) {
	for j := 0; j+1 < len(steps); j++ {
		i, norm := steps[j].first, steps[j+1]
		c := &l.p.Calls[i]
		if steps[j].child >= 0 || c.Op != "add" || norm.child < 0 || !l.several(c) || !l.feeds(steps[j], norm) ||
			!slices.ContainsFunc(l.p.Calls[norm.first:norm.last+1], func(c Call) bool { return Of(c.Op).Is(FeatureNorm) }) {
			continue
		}
		if x := &l.of[c.In[0]]; x.made >= 0 && x.owner == c.Scope && l.replaces(i, c.In[0]) {
			l.keep(c.In[0], norm.last, OneExpression)
		}
		if y := &l.of[c.In[1]]; y.made >= 0 && y.owner == c.Scope && y.reads > 1 {
			l.hold(c.In[1], OneExpression)
		}
	}
}
