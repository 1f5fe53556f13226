package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// maxAgain is the most calls that are made again because an exporter merged them.
const maxAgain = 1 << 12

// unmergeModules gives modules back the calls that an exporter made one: TorchScript runs _jit_pass_cse, and onnxscript
// eliminates common subexpressions likewise, where eager mode makes each call. A call of what
// comes from outside its module, read in that module and in one beside it, is none that a module returns: each of them
// makes it. The five branches of a NASNet cell have a ReLU each, of one tensor.
func (b *recovery) unmergeModules() {
	p := b.prog
	made, readers := madeAndRead(p)
	out := returned(p)
	copies, total := map[int32][]program.Call{}, 0 // by the call that they come before
	for x := range p.Calls {
		c := &p.Calls[x]
		if len(c.Out) != 1 || c.Out[0] == program.NoValue || len(readers.of(int32(c.Out[0]))) < 2 || readsOf(p, int32(x)) {
			continue
		}
		v := c.Out[0]
		if value := &p.Values[v]; value.Kind != program.Activation || !value.DType.IsFloat() || out[v] {
			continue
		}
		others := besides(p, int32(x), made, readers.of(int32(v)))
		if total += len(others); len(others) == 0 || total > maxAgain {
			continue
		}
		if b.at = int(c.Origin); !b.guess(mergedCalls) {
			continue
		}
		args := *c.Args
		args.Inplace = false
		c.Args = args.Kept()
		for _, at := range others {
			again := *c
			again.Scope, again.Stack = p.Calls[at[0]].Scope, p.Calls[at[0]].Stack
			again.Out = []program.ValueID{b.add(p.Values[v])}
			copies[at[0]] = append(copies[at[0]], again)
			for _, i := range at {
				readInstead(&p.Calls[i], v, again.Out[0])
			}
		}
	}
	insert(p, copies)
}

// besides returns the calls outside its module that read what call x makes, by the modules that they are in: none where
// its module may have returned it, as the module around that one reads it, or made what it is of.
func besides(p *program.Program, x int32, made, at []int32) (others [][]int32) {
	own := p.Calls[x].Scope
	inside := func(i int32) bool { return p.CommonScope(own, p.Calls[i].Scope) == own }
	if other := func(i int32) bool { return inside(i) && i != x }; !slices.ContainsFunc(at, other) {
		own = p.Scopes[own].Parent // an activation is a module of its own
		if own < 0 || !slices.ContainsFunc(at, other) {
			return nil
		}
	}
	floats := func(v program.ValueID) bool {
		return v != program.NoValue && p.Values[v].Kind == program.Activation && p.Values[v].DType.IsFloat()
	}
	if !slices.ContainsFunc(p.Calls[x].In, floats) { // a mask or places, which programs make ahead
		return nil
	}
	for _, in := range p.Calls[x].In {
		if in != program.NoValue && (int(in) >= len(made) || made[in] >= 0 && inside(made[in])) {
			return nil // the module made it itself, be it a copy from here
		}
	}
	modules := map[int32]int{}
	for _, i := range at {
		s := p.Calls[i].Scope
		around := p.CommonScope(own, s)
		switch around {
		case own:
			continue
		case s:
			return nil
		}
		for p.Scopes[s].Parent != around {
			s = p.Scopes[s].Parent
		}
		k, ok := modules[s]
		if !ok {
			k = len(others)
			modules[s], others = k, append(others, nil)
		}
		others[k] = append(others[k], i)
	}
	return others
}

// readInstead has a call read one value in the place of another.
func readInstead(c *program.Call, v, instead program.ValueID) {
	c.In = slices.Clone(c.In)
	for k, in := range c.In {
		if in == v {
			c.In[k] = instead
		}
	}
}

// returned says of each value whether the program returns it.
func returned(p *program.Program) []bool {
	is := make([]bool, len(p.Values))
	for _, v := range p.Outputs {
		is[v] = true
	}
	return is
}

// madeAndRead returns by value the call that makes it, -1 for none, and those that read it.
func madeAndRead(p *program.Program) (made []int32, by reads) {
	made = make([]int32, len(p.Values))
	for v := range made {
		made[v] = -1
	}
	list := make([]read, 0, len(p.Calls))
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			if v != program.NoValue {
				made[v] = int32(i)
			}
		}
		for _, v := range p.Calls[i].In {
			if v != program.NoValue {
				list = append(list, read{int32(v), int32(i)})
			}
		}
	}
	return made, indexReads(list, len(p.Values))
}

// insert puts calls before those by whose places they are kept.
func insert(p *program.Program, copies map[int32][]program.Call) {
	if len(copies) == 0 {
		return
	}
	total := 0
	for _, more := range copies {
		total += len(more)
	}
	calls := p.Calls
	p.Calls = make([]program.Call, 0, len(calls)+total)
	for i := range calls {
		p.Calls = append(append(p.Calls, copies[int32(i)]...), calls[i])
	}
}

// readsOf reports whether a call reads a parameter.
func readsOf(p *program.Program, i int32) bool {
	return slices.ContainsFunc(p.Calls[i].In, func(v program.ValueID) bool {
		return v != program.NoValue &&
			p.Values[v].Kind == program.Parameter
	})
}
