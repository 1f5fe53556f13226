package lifetime

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/pysource"
)

// resolve finds the names of what a statement reads.
func (n *namespace) resolve(e *execution) {
	reads := n.reads(e)
	if len(reads) == 0 {
		return
	}
	var known, stale, unknown []*pyName
	for _, p := range e.parts {
		for _, name := range p.st.Reads {
			x := n.variable(name)
			if n.l.work -= int64(len(known) + len(stale) + len(unknown)); n.l.work < 0 {
				return
			}
			switch {
			case slices.Contains(known, x) || slices.Contains(stale, x) || slices.Contains(unknown, x):
			case slices.ContainsFunc(x.values(), func(v program.ValueID) bool { return n.l.has(reads, v) }):
				known = append(known, x)
			case len(x.values()) == 0:
				unknown = append(unknown, x)
			default:
				stale = append(stale, x)
			}
		}
	}
	if x := n.sliced(e, reads); x != nil {
		known = append(known, x)
	}
	for _, x := range known {
		x.read = e.last
	}
	if e.open { // lines of it that were not seen read the rest: y, z = attention( and the arguments below
		n.l.work -= int64(len(n.vars))
		for _, x := range n.vars {
			if slices.ContainsFunc(x.values(), func(v program.ValueID) bool { return n.l.has(reads, v) }) {
				x.read = e.last
			}
		}
	}
	candidates := append(unknown, stale...)
	for _, v := range reads {
		if slices.ContainsFunc(known, func(x *pyName) bool { return n.l.has(x.values(), v) }) {
			continue
		}
		switch {
		case len(candidates) > 0:
			x := candidates[0]
			if len(candidates) > 1 || e.open {
				candidates = candidates[1:]
			}
			n.l.work -= int64(len(x.values()))
			if n.element(e, x, v) { // xs[i] of a list that a line which computes nothing puts together
				x.list = true
				n.put(x.name, n.since(v), []program.ValueID{v})
				x.read = e.last
			} else if x.read == e.last && len(x.bound) > 0 { // one more of a list
				if k := len(x.bound) - 1; k > 0 && len(x.bound[k].values) == 1 && x.bound[k].lost {
					// Begun on a line that was not seen, xs = [], when what it had before had been read.
					x.bound = slices.Insert(x.bound, k, bound{at: max(x.before, x.bound[k-1].at), lost: true})
				}
				x.bound[len(x.bound)-1].values = append(slices.Clip(x.values()), v)
			} else {
				if n.had(x, v) && n.lostName(v) { // x = cache[i]: what keeps it still does
					n.loose = append(n.loose, v)
				}
				at := max(n.since(v), x.read)
				if n.since(v) <= x.read { // it was there before, and something else had it: x = xs.pop()
					at = n.turn(at)
				}
				if k := len(x.bound); k > 0 {
					at = max(at, x.bound[k-1].at)
				}
				x.bound = append(x.bound, bound{at: at, values: []program.ValueID{v}, lost: true})
				x.before, x.read = x.read, e.last
			}
		case n.lostName(v):
			n.loose = append(n.loose, v)
		case n.l.made[v] < n.first && len(known) == 1 && known[0].list:
			known[0].given = append(known[0].given, v)
		}
	}
}

// sliced returns the attribute of the module that a statement takes parts of by places, ctx * self.gates[:, i:j], and
// binds it to the one value of which parts are taken there, where no line is known of what made it: exporters fold what
// torch.split returns, q, ctx, self.gates = torch.split(x, ...), into one node that has none. It returns nil where
// parts are taken of anything else, too.
func (n *namespace) sliced(e *execution, reads []program.ValueID) *pyName {
	name := ""
	for _, p := range e.parts {
		for _, s := range p.st.Sliced {
			if name != "" && s != name {
				return nil
			}
			name = s
		}
	}
	if !strings.HasPrefix(name, pysource.Self) {
		return nil
	}
	found := program.NoValue
	for _, v := range reads {
		made := n.l.made[v]
		if made < n.first || n.l.p.Calls[made].Stack != 0 || !n.picked(e, v) {
			continue
		}
		if found != program.NoValue {
			return nil
		}
		found = v
	}
	if found == program.NoValue {
		return nil
	}
	x := n.variable(name)
	if !n.l.has(x.values(), found) {
		x.bound = append(x.bound, bound{at: n.l.made[found], values: []program.ValueID{found}, lost: true})
	}
	return x
}

// picked reports whether all that a statement does with a value is to take parts of it by places.
func (n *namespace) picked(e *execution, v program.ValueID) bool {
	for i := e.first; i <= e.last; i++ {
		if c := &n.l.p.Calls[i]; slices.Contains(c.In, v) &&
			(!program.Of(c.Op).Is(program.Picks) && !program.Of(c.Op).Is(program.Parts) || c.In[0] != v) {
			return false
		}
	}
	return true
}

// lists follows a list that the program makes of a value, on a line that computes nothing, and gives to a module which
// appends to it:
//
//	xs = [x]
//	x = self.a(x)
//	x = self.b(x, xs)
//
// It is this function's, so what it has lives as long as its name here.
func (n *namespace) lists(e *execution, spaces []*namespace) {
	for _, p := range e.parts {
		for _, st := range p.steps {
			if st.child < 0 {
				continue
			}
			for _, y := range spaces[st.child].vars {
				if !y.list || len(y.given) == 0 {
					continue
				}
				for _, name := range p.st.Reads {
					x := n.by[name]
					if x == nil || len(x.bound) == 0 || !x.bound[len(x.bound)-1].lost || !n.l.has(x.values(), y.given[0]) {
						continue
					}
					if slices.ContainsFunc(n.vars, func(z *pyName) bool {
						return z != x && slices.ContainsFunc(z.bound, func(b bound) bool { return n.l.has(b.values, y.given[0]) })
					}) {
						n.put(name, e.last, y.values())
						break
					}
				}
			}
		}
	}
}

// element reports whether a statement takes a value out of a list by its place, and no part out of the value.
func (n *namespace) element(e *execution, x *pyName, v program.ValueID) bool {
	if !slices.ContainsFunc(e.parts, func(p piece) bool { return slices.Contains(p.st.Indexed, x.name) }) {
		return false
	}
	if k := len(x.bound); k > 0 && x.bound[k-1].at > n.since(v) && !x.list {
		return false // a tensor's name, which was bound since
	}
	for i := e.first; i <= e.last; i++ {
		if c := &n.l.p.Calls[i]; slices.Contains(c.In, v) {
			return !program.Of(c.Op).Is(program.Picks)
		}
	}
	return false
}

// had reports whether a name had a value before, and others since.
func (n *namespace) had(x *pyName, v program.ValueID) bool {
	n.l.work -= int64(len(x.bound))
	return slices.ContainsFunc(x.bound, func(b bound) bool { return n.l.has(b.values, v) })
}

// lostName reports whether a value had a name that was bound again since: what is read of it later has another, which
// was not seen.
func (n *namespace) lostName(v program.ValueID) bool {
	had := false
	for _, x := range n.vars {
		if n.l.has(x.values(), v) {
			return false
		}
		had = had || slices.ContainsFunc(x.bound, func(b bound) bool { return n.l.has(b.values, v) })
	}
	return had
}

// since returns the call after which a value was there.
func (n *namespace) since(v program.ValueID) int32 { return max(n.l.made[v], n.first-1) }

// reads returns what a statement reads that was there before it, in the order in which it does.
func (n *namespace) reads(e *execution) (list []program.ValueID) {
	n.l.stamp++
	stamp := n.l.stamp
	for i := e.first; i <= e.last; i++ {
		for _, v := range n.l.p.Calls[i].In {
			if v == program.NoValue || n.l.made[v] >= e.first || n.l.search[v] == stamp {
				continue
			}
			n.l.search[v] = stamp
			if kind := n.l.p.Values[v].Kind; n.l.made[v] >= 0 || kind == program.InputValue {
				list = append(list, v)
			}
		}
	}
	return list
}
