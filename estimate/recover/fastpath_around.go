package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// isView reports whether a call takes part in handing on what the projections of an attention make:
// proj.unflatten(-1, (3, E)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()[0], and views as heads. A module
// that takes slices, proj[..., :E], is a program's own.
func isView(p *program.Program, c *program.Call) bool {
	return program.Of(c.Op).Is(program.Same) ||
		program.Of(c.Op).Is(program.Picks) && len(p.Values[c.Out[0]].Shape) < len(p.Values[c.In[0]].Shape)
}

// projection follows views of a value back to the linear call that made it; -1 when something else did.
func projection(p *program.Program, made []int32, v program.ValueID) int {
	for range 16 { // a module's views are few
		i := made[v]
		if i < 0 {
			return -1
		}
		c := &p.Calls[i]
		if c.Op == "linear" {
			return int(i)
		}
		if !isView(p, c) {
			return -1
		}
		v = c.In[0]
	}
	return -1
}

// outProjection follows a result through views and one linear call to the call that swaps the batch with the steps
// again; -1 when it goes elsewhere.
func outProjection(p *program.Program, users reads, v program.ValueID) int {
	linear := false
	for range 16 {
		if len(users.of(int32(v))) != 1 {
			return -1
		}
		i := users.of(int32(v))[0]
		c := &p.Calls[i]
		switch {
		case c.Op == "linear" && !linear && c.In[0] == v:
			linear = true
		case linear && swapsBatch(p, i, []int{1, 2, 0}):
			return int(i)
		case !isView(p, c):
			return -1
		}
		v = c.Out[0]
	}
	return -1
}

// swapsBatch reports whether a call swaps the batch with the steps, perhaps together with what the caller does beside
// it, module(x.transpose(1, 2)): exporters make one Transpose of two.
func swapsBatch(p *program.Program, i int32, merged []int) bool {
	dims := p.Calls[i].Args.Dims
	return p.Calls[i].Op == "permute" && (slices.Equal(dims, []int{1, 0, 2}) || slices.Equal(dims, merged))
}

// turnedBack returns what a module with batch_first is given, or returns, where the call that swaps the batch has the
// caller's transpose(1, 2) in it, and that call: it is of v, or makes it.
func turnedBack(p *program.Program, v program.ValueID, swap *program.Call, makes bool) (program.ValueID, []program.Call) {
	shape := p.Values[v].Shape
	if slices.Equal(swap.Args.Dims, []int{1, 0, 2}) || len(shape) != 3 {
		return v, nil
	}
	turned := p.Add(program.Value{DType: p.Values[v].DType, Shape: []int64{shape[0], shape[2], shape[1]}})
	from, to := v, turned
	if makes {
		from, to = turned, v
	}
	return turned, []program.Call{{Op: "permute", In: []program.ValueID{from}, Out: []program.ValueID{to},
		Args: program.Args{Dims: []int{0, 2, 1}}.Kept(), Layer: swap.Layer, Origin: swap.Origin, Stack: swap.Stack,
		Scope: swap.Scope}}
}
