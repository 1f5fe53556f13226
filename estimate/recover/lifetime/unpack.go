package lifetime

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// unpack binds names to the parts of a value.
func (n *namespace) unpack(e *execution, made []program.ValueID, spaces []*namespace) {
	targets := e.head.Targets
	if len(targets) == 2 && e.hidden && len(made) > 0 {
		// x, attn = attention(q, k, v), or x, self.attn =
		if kept := n.l.weightsOf(e.first, e.last); kept != nil && !slices.Contains(made, kept[0]) {
			n.bind(targets[0], e.last, made[len(made)-1:])
			n.bind(targets[1], e.last, kept[:1])
			e.kept = true
			return
		}
	}
	if k := len(targets) - len(made); k == 2 && e.hidden && len(made) > 0 && n.l.takes(weightsBeside) {
		// x, attn, self.attn = attention(q, k, v)
		if kept := n.l.mixedOf(e.first, e.last); len(kept) == k && !slices.ContainsFunc(made, func(v program.ValueID) bool {
			return slices.Contains(kept, v)
		}) {
			for i, v := range slices.Concat(made, kept) {
				n.bind(targets[i], e.last, []program.ValueID{v})
			}
			for _, v := range kept {
				n.l.chosen = append(n.l.chosen, choice{weightsBeside, v, e.last})
			}
			e.kept = true
			return
		}
	}
	made = n.inOrder(targets, made)
	var rest []string
	for i, name := range targets {
		switch {
		case i < len(made) && i == len(targets)-1:
			n.bind(name, e.last, made[i:])
		case i < len(made):
			n.bind(name, e.last, made[i:i+1])
		default:
			n.bind(name, e.last, nil)
			rest = append(rest, name)
		}
	}
	for i, name := range rest {
		if y := n.by[name]; y != nil && len(y.bound) > 0 { // not so for "" alone
			y.bound[len(y.bound)-1].values = n.besides(e, name, i, len(rest), spaces)
		}
	}
}

// weightsOf returns the weights of the attention in some calls, as a guess about what a name beside its result has.
// They are not returned where a line of the same function says that None is.
func (l *lives) weightsOf(first, last int32) []program.ValueID {
	if !l.takes(weightsBeside) {
		return nil
	}
	kept := l.weights(first, last)
	kept = slices.DeleteFunc(kept, func(v program.ValueID) bool {
		at := l.reader[v] // in attention itself: dropout may be what made them
		return l.p.Sources.ReturnsAlone(l.p.Calls[at].Stack)
	})
	if len(kept) == 0 {
		return nil
	}
	for _, v := range kept {
		l.chosen = append(l.chosen, choice{weightsBeside, v, last})
	}
	return kept
}

// besides returns the i-th of some values that a module returns and nothing reads: attn_output, attn_weights =
// self.attention(x). It has the same name there, or the i-th of as many that no line there reads, or it is the weights
// of the module's only attention.
func (n *namespace) besides(e *execution, name string, i, of int, spaces []*namespace) (values []program.ValueID) {
	for _, p := range e.parts {
		for _, st := range p.steps {
			if st.child < 0 || spaces[st.child] == nil {
				continue
			}
			child := spaces[st.child]
			n.l.work -= int64(len(child.vars))
			if x := child.by[strings.TrimPrefix(name, pysource.Self)]; x != nil {
				values = x.values()
			} else if idle := child.idle(); len(idle) == of {
				values = idle[i].values()
			} else if kept := n.l.weightsOf(st.first, st.last); of == 1 && len(kept) == 1 {
				values = kept
			}
		}
	}
	return values
}

// idle returns the names to which a line binds what no line reads: the function returns it.
func (n *namespace) idle() (list []*pyName) {
	for _, x := range n.vars {
		k := len(x.bound) - 1
		if k < 0 || x.name == "_" || strings.HasPrefix(x.name, pysource.Self) || x.bound[k].lost || x.read >= x.bound[k].at {
			continue
		}
		if len(x.values()) > 0 && !slices.ContainsFunc(x.values(), func(v program.ValueID) bool {
			return n.l.reader[v] > n.l.spans.list[n.k].last || n.l.output[v]
		}) {
			list = append(list, x)
		}
	}
	return list
}

// tuples follows the results of recurrent modules that nothing reads: they are in the tuple that the module returns.
func (n *namespace) tuples(e *execution) {
	p := n.l.p
	for i := e.first; i <= e.last; i++ {
		c := &p.Calls[i]
		if !program.Of(c.Op).Is(program.Tuple) || n.l.spans.list[n.l.spans.inner[i]].up != int32(n.k) {
			continue
		}
		n.l.unread[i] = n.l.spans.list[n.l.spans.inner[i]].last // self.lstm(x)[0]
		if st := e.head; st != nil && st.Kind == pysource.Binding && len(st.Targets) > 0 && len(st.Sites) == 1 {
			if x := n.by[st.Targets[len(st.Targets)-1]]; x != nil && len(x.bound) > 0 {
				b := &x.bound[len(x.bound)-1]
				b.unread = append(b.unread, i)
				for _, v := range c.Out {
					if v != program.NoValue && n.l.reads[v] == 0 && !n.l.output[v] {
						b.values = append(slices.Clip(b.values), v)
					}
				}
			}
		}
	}
}
