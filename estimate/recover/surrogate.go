package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// surrogateGradients finds the comparisons whose gradients a torch.autograd.Function of the program's own makes up, as
// the spikes of networks of spiking neurons: the file has the function's forward alone, (x > 0).float(), through which
// autograd sends no gradients. Where weights would get none but by such a step, nobody trains so, and it is a function
// that returns some. A mask that the model computes of values which train in another way as well is none. Nothing needs
// the comparisons any more that such functions make.
func surrogateGradients(p *program.Program) {
	trained, reached := gradients(p, false), gradients(p, true)
	of := make([]bool, len(p.Values)) // is computed of weights that are not trained
	for v := range p.Values {
		x := &p.Values[v]
		of[v] = x.Kind == program.Parameter && len(x.Shape) > 1 && !x.Frozen && reached[v] && !trained[v]
	}
	if !slices.Contains(of, true) {
		return
	}
	steps := map[program.ValueID]program.ValueID{} // by the result of a comparison, what it compares
	for i := range p.Calls {
		c := &p.Calls[i]
		k := slices.IndexFunc(c.In, func(v program.ValueID) bool { return of[v] })
		switch {
		case k >= 0 && program.Of(c.Op).Is(program.Tests): // a function has one argument, and a result of its size
			if x := c.In[k]; slices.Equal(p.Values[x].Shape, p.Values[c.Out[0]].Shape) {
				steps[c.Out[0]] = x
			}
		case k >= 0:
			for _, v := range c.Out {
				of[v] = v != program.NoValue && p.Values[v].DType.IsFloat()
			}
		case program.Of(c.Op).Is(program.Same) && c.Args.DType.IsFloat() && reached[c.Out[0]]:
			if x, ok := steps[c.In[0]]; ok {
				p.Calls[i] = program.Call{Op: "step_function", In: []program.ValueID{x}, Out: c.Out, Args: c.Args, Layer: c.Layer,
					Scope: c.Scope, Origin: c.Origin, Stack: c.Stack}
			}
		}
	}
}

// gradients returns what gradients reach from what a program returns, and, if they are asked for, what they would if
// they went through comparisons as well.
func gradients(p *program.Program, comparisons bool) []bool {
	reached := make([]bool, len(p.Values))
	for _, v := range p.Outputs {
		reached[v] = true
	}
	for i := len(p.Calls) - 1; i >= 0; i-- {
		c := &p.Calls[i]
		if op := program.Of(c.Op); op.Is(program.Cuts) || !slices.ContainsFunc(c.Out, func(v program.ValueID) bool {
			return v != program.NoValue && reached[v] && (p.Values[v].DType.IsFloat() || comparisons && op.Is(program.Tests))
		}) {
			continue
		}
		for _, v := range c.In {
			reached[v] = true
		}
	}
	return reached
}
