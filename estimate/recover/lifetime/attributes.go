package lifetime

import (
	"cmp"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// An Attribute is a value that a module keeps beside what it returns, self.attn = softmax(scores): from call At on,
// until the attribute is bound again, be it by the next forward pass. Slots are the attributes of all modules, counted
// from 0.
type Attribute struct {
	At    int32
	Slot  int32
	Value program.ValueID
}

// An attributeName is an attribute of a module, and which of its values is meant.
type attributeName struct {
	module, name string
	item         int
}

// attribute notes what a module's attribute has from the end of a call on. Where it has several values, as a list of
// them would, it keeps each.
func (l *lives) attribute(k int, name string, at int32, values []program.ValueID) {
	for i, v := range values {
		if l.made[v] < 0 {
			continue
		}
		of := attributeName{l.p.Scopes[l.spans.list[k].scope].Name, name, i}
		if l.slots == nil {
			l.slots = map[attributeName]int32{}
		}
		slot, ok := l.slots[of]
		if !ok {
			slot = int32(len(l.slots))
			l.slots[of] = slot
		}
		l.attributes = append(l.attributes, Attribute{max(at, l.made[v]), slot, v})
	}
}

// attributesInOrder returns them by the calls at which they are bound, and how many slots they have.
func (l *lives) attributesInOrder() ([]Attribute, int) {
	slices.SortStableFunc(l.attributes, func(a, b Attribute) int { return cmp.Compare(a.At, b.At) })
	return l.attributes, len(l.slots)
}

// keepAttributes notes what the attributes have that a forward binds.
func (n *namespace) keepAttributes() {
	for _, x := range n.vars {
		if !strings.HasPrefix(x.name, pysource.Self) {
			continue
		}
		for _, b := range x.bound {
			n.l.attribute(n.k, x.name, b.at, b.values)
		}
	}
}

// weights returns what attention returns beside its result in most code: the weights that the values are multiplied by,
// x, self.attn = attention(q, k, v). Nothing else reads them. Of calls that have several attentions there is one each.
func (l *lives) weights(first, last int32) (kept []program.ValueID) {
	l.work -= int64(last - first)
	from := map[program.ValueID]bool{} // softmax's results, and what is dropped out of them
	for i := first; i <= last; i++ {
		c := &l.p.Calls[i]
		for _, v := range c.In {
			if v == program.NoValue || !from[v] {
				continue
			}
			switch {
			case program.Of(c.Op).Is(program.Product):
				kept = append(kept, v)
			case program.Of(c.Op).Is(program.Tuple): // which returns their mean instead
				kept = slices.DeleteFunc(kept, func(w program.ValueID) bool { return w == v })
			}
			if v == c.In[0] && len(c.Out) > 0 && c.Out[0] != program.NoValue && (c.Op == "dropout" || program.Of(c.Op).Is(program.Look)) {
				from[c.Out[0]] = true
			}
		}
		if c.Op == "softmax" && c.Out[0] != program.NoValue {
			from[c.Out[0]] = true
		}
	}
	return kept
}

// mixedOf returns what the only attention in some calls multiplies its values by, and softmax's result, of which that
// is computed together with something else of its shape: 0.5 * torch.softmax(scores, -1) + 0.5 * distances.
func (l *lives) mixedOf(first, last int32) (kept []program.ValueID) {
	l.work -= int64(last - first)
	type weights struct {
		softmax program.ValueID
		mixed   bool
	}
	from := map[program.ValueID]weights{}
	for i := first; i <= last; i++ {
		c := &l.p.Calls[i]
		for _, v := range c.In {
			w := from[v]
			switch {
			case v == program.NoValue || w.softmax == program.NoValue:
			case program.Of(c.Op).Is(program.Product):
				if !w.mixed || kept != nil {
					return nil
				}
				kept = []program.ValueID{v, w.softmax}
			case one(c) && sameSize(l.p, c.Out[0], v):
				from[c.Out[0]] = weights{w.softmax, w.mixed || l.several(c)}
			}
		}
		if c.Op == "softmax" && c.Out[0] != program.NoValue {
			from[c.Out[0]] = weights{softmax: c.Out[0]}
		}
	}
	return kept
}
