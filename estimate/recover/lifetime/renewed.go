package lifetime

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// renewed finds lists that are begun anew on a line that computes nothing:
//
//	for layer in self.layers:
//	    outputs = []
//	    for t in range(steps):
//	        outputs.append(layer(x[:, t]))
//	    x = torch.stack(outputs, dim=1)
//
// A statement reads all that such a list has. Where the next one that does reads just what was put into it since, what
// was there before is in another list, which went when it had been read.
func (n *namespace) renewed(e *execution) {
	var reads []int32 // of the list that is looked at: places that the statement reads
	read := n.reads(e)
	if len(read) < 2 {
		return
	}
	for _, p := range e.parts {
		for _, name := range p.st.Reads {
			x := n.by[name]
			if x == nil || !x.list {
				continue
			}
			values := x.values()
			reads = reads[:0]
			for i, v := range values {
				if n.l.has(read, v) {
					reads = append(reads, int32(i))
				}
			}
			if len(reads) < 2 || int(reads[0])+len(reads) != len(values) { // not all from one on
				continue
			}
			if old := int(reads[0]); old > 0 && old == x.whole {
				x.begin(old)
			} else if old > 0 {
				continue
			}
			x.whole, x.wholeAt = len(x.values()), e.last
		}
	}
}

// begin takes apart a list that had so many values when it was begun anew. A list that the name had before may have
// been longer: only what was put into the last one is looked at.
func (x *pyName) begin(old int) {
	at := len(x.bound)
	for at > 0 && len(x.bound[at-1].values) > old {
		at--
	}
	for i := at; i < len(x.bound); i++ {
		x.bound[i].values = x.bound[i].values[old:]
	}
	x.bound = slices.Insert(x.bound, at, bound{at: x.wholeAt})
}

// sums lets live what a statement makes a list of that it gives to Python's sum, which adds one after the other: the
// list has all of them until sum returns.
//
//	out = sum([w * x for w, x in zip(weights, parts)])
func (n *namespace) sums(e *execution) {
	if !slices.ContainsFunc(e.parts, func(p piece) bool { return p.st.Sums }) {
		return
	}
	calls := n.l.p.Calls
	adds := func(v program.ValueID) int32 { // the call of this statement that makes a value by adding
		if v != program.NoValue && n.l.made[v] >= e.first && calls[n.l.made[v]].Op == "add" {
			return n.l.made[v]
		}
		return -1
	}
	last := e.last
	for last >= e.first && calls[last].Op != "add" {
		last--
	}
	for i := last; i >= e.first; i = adds(calls[i].In[0]) {
		if adds(calls[i].In[0]) < 0 { // the first, to which sum adds 0
			n.until(calls[i].In[0], last)
		}
		n.until(calls[i].In[1], last)
	}
}
