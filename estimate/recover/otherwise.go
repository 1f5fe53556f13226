package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// InPlaceWherePossible returns a program in which whatever PyTorch lets work in place does: activations, and sums of
// two tensors of one shape. In training nothing else may have read what is written over, and no backward may need it.
func InPlaceWherePossible(p *program.Program, train bool) (other *program.Program, places int) {
	made, last, reads := make([]int32, len(p.Values)), make([]int32, len(p.Values)), make([]int, len(p.Values))
	for v := range made {
		made[v] = -1
	}
	for i := range p.Calls {
		for _, v := range p.Calls[i].Out {
			made[v] = int32(i)
		}
		for _, v := range p.Calls[i].In {
			last[v] = int32(i)
			reads[v]++
		}
	}
	out := returned(p)
	copied := *p
	copied.Calls = slices.Clone(p.Calls)
	overwrites := func(i int, v program.ValueID) bool {
		if v == program.NoValue || made[v] < 0 || last[v] != int32(i) || out[v] {
			return false
		}
		if !train {
			return true
		}
		return reads[v] == 1 && !program.Of(p.Calls[made[v]].Op).Is(program.KeepsResult)
	}
	for i := range copied.Calls {
		c := &copied.Calls[i]
		if c.Args.Inplace || len(c.Out) == 0 || c.Out[0] == program.NoValue {
			continue
		}
		same := func(v program.ValueID) bool {
			x, y := &p.Values[v], &p.Values[c.Out[0]]
			return slices.Equal(x.Shape, y.Shape) && x.DType == y.DType
		}
		switch {
		case len(c.In) == 1 && program.Of(c.Op).Is(program.Switchable) && overwrites(i, c.In[0]):
			c.InPlace()
			places++
		case c.Op == "add" && len(c.In) == 2 && c.In[0] != c.In[1]:
			for k, v := range c.In {
				if same(v) && overwrites(i, v) {
					if k == 1 {
						c.In = []program.ValueID{c.In[1], c.In[0]}
					}
					c.InPlace()
					places++
					break
				}
			}
		}
	}
	return &copied, places
}

// ContiguousSequences returns a program in which what a recurrent layer is given is copied once it is turned:
// x.permute(2, 0, 1).contiguous(), of which an export keeps the first half alone. Recurrent layers, whose modules alone
// return tuples, copy what is not contiguous, and then keep the original.
func ContiguousSequences(p *program.Program) (other *program.Program, places int) {
	turned := map[program.ValueID]int32{} // by what it gives, the scope that permutes
	copied := *p
	copied.Calls, copied.Values = nil, slices.Clone(p.Values)
	for _, c := range p.Calls {
		if c.Op == "permute" && len(c.Out) == 1 {
			turned[c.Out[0]] = c.Scope
		}
		// Within its own module it is batch_first, which the layer turns for itself.
		if program.Of(c.Op).Is(program.Tuple) && len(c.In) > 0 {
			if scope, ok := turned[c.In[0]]; ok && scope != c.Scope {
				v := p.Values[c.In[0]]
				v.Name = ""
				x := copied.Add(v)
				copied.Calls = append(copied.Calls, program.Call{Op: "contiguous", In: []program.ValueID{c.In[0]},
					Out: []program.ValueID{x}, Args: program.Plain, Layer: c.Layer, Scope: scope, Origin: -1, Stack: c.Stack})
				c.In = append([]program.ValueID{x}, c.In[1:]...)
				places++
			}
		}
		copied.Calls = append(copied.Calls, c)
	}
	return &copied, places
}

// WithDropout returns a program in which dropout is where transformers have it, which an export in evaluation mode
// loses: behind the weights of attention that is written out, behind a projection that a sum adds, and between the two
// of a feed-forward network.
func WithDropout(p *program.Program) (other *program.Program, places int) {
	dropped := *p
	dropped.Calls, dropped.Values = nil, slices.Clone(p.Values)
	from := map[program.ValueID]*program.Call{} // by value, what made it, but for views
	projects := func(c *program.Call) bool {
		return program.Of(c.Op).Is(program.RowSum) && slices.ContainsFunc(c.In, func(v program.ValueID) bool {
			return v != program.NoValue && dropped.Values[v].Kind == program.Parameter
		})
	}
	for i := range p.Calls {
		c := p.Calls[i]
		for k, x := range c.In {
			of := from[x]
			if of == nil {
				continue
			}
			weights := of.Op == "softmax" && program.Of(c.Op).Is(program.Product)
			added := projects(of) && c.Op == "add"
			hidden := program.Of(of.Op).Is(program.Nonlinearity) && projects(&c)
			if !weights && !added && !hidden {
				continue
			}
			v := p.Values[x]
			v.Name = ""
			y := dropped.Add(v)
			dropped.Calls = append(dropped.Calls, program.Call{Op: "dropout", In: []program.ValueID{x}, Out: []program.ValueID{y},
				Args: program.Args{P: 0.1, Train: true}.Kept(), Layer: c.Layer, Scope: c.Scope, Origin: -1, Stack: c.Stack})
			c.In = slices.Clone(c.In)
			c.In[k] = y
			places++
		}
		maker := &p.Calls[i]
		if len(c.In) > 0 && program.Of(c.Op).Is(program.Look) {
			maker = from[p.Calls[i].In[0]]
		}
		for _, v := range c.Out {
			from[v] = maker
		}
		dropped.Calls = append(dropped.Calls, c)
	}
	return &dropped, places
}
