package module

import (
	"iter"

	"github.com/memestimate/memestimate/onnxload"
)

// rearrange follows a node that only prepares parameters for another one, and
// reports whether it is such a node. Such nodes are no steps: PyTorch has the
// parameters in the form that it needs.
func (a *Analysis) rearrange(n *onnxload.Node) bool {
	if a.facts(n).Traits&(View|Prepares) == 0 {
		return false
	}
	last := 0 // of the inputs that are rearranged; what follows says how
	if n.Op == "Concat" {
		last = len(n.In) - 1
	}
	var from []onnxload.ValueID
	for slot, id := range n.In {
		if id == onnxload.NoValue || slot > last {
			continue
		}
		if a.made[id] >= 0 { // computed from parameters: a step like any other
			return false
		}
		more := a.Origins(id)
		if from == nil {
			from = more[:len(more):len(more)]
			continue
		}
		if len(from)+len(more) > maxOrigins || !a.afford(len(from)+len(more)) {
			return false
		}
		from = append(from, more...)
	}
	a.use(n, last+1, -1)
	for _, id := range n.Out {
		if id != onnxload.NoValue {
			a.flows[id], a.rearranged[id] = trained, from
		}
	}
	return true
}

// How many constants one value is taken to be a rearrangement of, four times what the largest mixtures of experts
// stack; and how many of them all values of a model may be, and be used as, together: what is followed grows with a
// file, not as its square.
const (
	maxOrigins         = 1 << 10
	maxFollowed        = 1 << 20
	maxFollowedByValue = 16
)

// afford takes n from how many constants may still be followed through values that have several, and reports whether
// they were left.
func (a *Analysis) afford(n int) bool {
	a.followed += n
	return a.followed <= maxFollowed+maxFollowedByValue*len(a.Model.Values)
}

// use notes the constants that arrive at a node's inputs, from one slot on.
func (a *Analysis) use(n *onnxload.Node, from int, at int32) {
	for slot := from; slot < len(n.In); slot++ {
		if id := n.In[slot]; id != onnxload.NoValue {
			origins := a.Origins(id)
			if len(origins) > 1 && !a.afford(len(origins)) {
				continue
			}
			for _, c := range origins {
				a.uses = append(a.uses, use{node: n, slot: int32(slot), step: at})
				k, c := int32(len(a.uses)), a.ConstantOf(c)
				if c.First == 0 {
					c.First = k
				} else {
					a.uses[c.last-1].next = k
				}
				c.last = k
			}
		}
	}
}

// A use is an input of a node that a constant arrives at, rearranged or not.
type use struct {
	node *onnxload.Node
	slot int32
	step int32 // index into steps, or -1
	next int32 // the next use of the same constant: see constant.uses
}

// usesOf lists where a constant arrives, in execution order.
func (a *Analysis) usesOf(c *constant) iter.Seq[*use] {
	return func(yield func(*use) bool) {
		for k := c.First; k > 0; k = a.uses[k-1].next {
			if !yield(&a.uses[k-1]) {
				return
			}
		}
	}
}
