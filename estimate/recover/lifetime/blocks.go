package lifetime

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
)

// nested lets the argument of a module live until the functions are done that take the module's result at once.
func (l *lives) nested(steps []step) {
	for j := range steps {
		st := steps[j]
		if st.child < 0 {
			continue
		}
		end := st
		for _, next := range steps[j+1:] {
			c := &l.p.Calls[next.first]
			if next.child >= 0 || !program.Of(c.Op).Is(program.Nonlinearity|program.Wrapper) || c.In[0] == program.NoValue ||
				l.made[c.In[0]] < end.first || l.made[c.In[0]] > end.last || l.reads[c.In[0]] != 1 {
				break
			}
			end = next
		}
		if end == st {
			continue
		}
		l.extend(st, end.last, nestedCall)
	}
}

// preactivation lets the argument of norms and activations before a convolution live until that is done, in functions
// that begin with a norm or an activation, not with a convolution. Residual and dense blocks of that kind are written
// as expressions from convolution to convolution, self.conv2(self.relu2(self.norm2(x))); those that begin with
// convolutions as a line for each module. That a norm belongs to the convolution behind it their numbers say, norm2
// and conv2; those of blocks that begin with one more norm go with the convolution before. A Sequential, whose members
// have nothing but numbers, calls them one by one.
func (l *lives) preactivation(steps []step) {
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
			l.extend(steps[j], steps[end].last, preactivated)
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

func (l *lives) kind(st step) moduleKind {
	if st.child < 0 {
		return otherModule
	}
	if l.p.Calls[st.last].Op == "conv" && l.makesItsWeight(st) {
		return convolution
	}
	kind := otherModule
	for i := st.first; i <= st.last; i++ {
		if !program.Of(l.p.Calls[i].Op).Is(program.ChannelNorm | program.Nonlinearity) {
			return otherModule
		}
		kind = normOrActivation
	}
	return kind
}

// makesItsWeight reports whether nothing but the last call of a step reads what comes from outside of it: the others
// standardise its weight.
func (l *lives) makesItsWeight(st step) bool {
	for i := st.first; i < st.last; i++ {
		for _, v := range l.p.Calls[i].In {
			if v != program.NoValue && l.made[v] >= 0 && l.made[v] < st.first {
				return false
			}
		}
	}
	return true
}

// number returns the first number in the name of a step's module, "2" of block.norm2; "" when it has none.
func (l *lives) number(st step) string {
	name := l.p.Scopes[l.spans.list[st.child].scope].Name
	name = name[strings.LastIndexByte(name, '.')+1:]
	name = strings.TrimLeftFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	if i := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' }); i >= 0 {
		name = name[:i]
	}
	return name
}

// feeds reports whether a step's only result is what the next one takes, and nothing else.
func (l *lives) feeds(from, to step) bool {
	for _, v := range l.p.Calls[from.last].Out {
		if v != program.NoValue && l.reads[v] == 1 && l.reader[v] >= to.first && l.reader[v] <= to.last {
			return true
		}
	}
	return false
}

// summed lets the first operand of a sum live until the norm has returned that takes the sum: it is a variable, which
// the norm's result is assigned to, x = norm(x + y). The second is more often what a call made, norm(x + f(x)); where
// others read it too it is a variable that keeps its value, y = f(x); y = norm(y + x), as in transformers'
// models/distilbert/modeling_distilbert.py.
func (l *lives) summed(steps []step) {
	for j := 0; j+1 < len(steps); j++ {
		c, norm := &l.p.Calls[steps[j].first], steps[j+1]
		if steps[j].child >= 0 || c.Op != "add" || norm.child < 0 || !l.several(c) || !l.feeds(steps[j], norm) ||
			!l.normalises(norm) {
			continue
		}
		if x := c.In[0]; x != program.NoValue && l.made[x] >= 0 && l.owner[x] == c.Scope && replaces(l.p, c, x) {
			l.keep(x, norm.last, summedFirst)
		}
		if y := c.In[1]; y != program.NoValue && l.made[y] >= 0 && l.owner[y] == c.Scope && l.reads[y] > 1 {
			l.hold(y, summedFirst)
		}
	}
}

// normalises reports whether a step is a norm of tokens.
func (l *lives) normalises(st step) bool {
	for i := st.first; i <= st.last; i++ {
		if program.Of(l.p.Calls[i].Op).Is(program.FeatureNorm) {
			return true
		}
	}
	return false
}

// extend lets what a step takes from its function, and what goes when the step is done, live until another call.
func (l *lives) extend(st step, until int32, r *Rule) {
	for i := st.first; i <= st.last; i++ {
		for _, v := range l.p.Calls[i].In {
			if v != program.NoValue && l.made[v] >= 0 && l.made[v] < st.first && l.last[v] == st.last {
				l.keep(v, until, r)
			}
		}
	}
}

// joined lets a picture live that a decoder makes larger and joins with a skip connection, until the module has run
// that takes both: U-Nets write x = self.dec(torch.cat([self.up(x), skip], 1)), or keep the last x by another name.
// Where what follows makes the picture larger once more it is the next turn, for up, skip in ...: x =
// torch.cat([up(x), skip], 1), and x is assigned by then.
func (l *lives) joined(steps []step) {
	p := l.p
	for j := 0; j+2 < len(steps); j++ {
		up, cat, dec := steps[j], steps[j+1], steps[j+2]
		c := &p.Calls[cat.first]
		if cat.child >= 0 || dec.child < 0 || c.Op != "cat" || len(c.In) != 2 || !l.feeds(up, cat) || !l.feeds(cat, dec) {
			continue
		}
		x := program.NoValue // what is made larger: all that the step takes
		for i := up.first; i <= up.last; i++ {
			for _, v := range p.Calls[i].In {
				if v != program.NoValue && l.made[v] >= 0 && l.made[v] < up.first {
					x = v
				}
			}
		}
		y, z := p.Calls[up.last].Out[0], p.Calls[dec.last].Out[0]
		if x != program.NoValue && z != program.NoValue && (c.In[0] == y || c.In[1] == y) &&
			larger(p.Values[y].Shape, p.Values[x].Shape) && !larger(p.Values[z].Shape, p.Values[c.Out[0]].Shape) {
			l.extend(up, dec.last, decoderSkip)
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
