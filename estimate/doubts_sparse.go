package estimate

import "github.com/memestimate/memestimate/estimate/program"

// fewestRows is from how many rows on a square input may be a sparse matrix: of a graph or of a mesh.
const fewestRows = 1 << 10

// sparseInputs is the doubt whether square matrices that the model is given, and multiplies something by, are sparse:
// adjacencies, Laplacians, gradients on meshes. torch.export writes a sparse tensor as a dense one of its shape, and a
// product of it as any other. At the other end they take nothing.
func (b *Bound) sparseInputs(_ Step, sim *Simulation) (g Guess, ok bool, err error) {
	p := sim.prog
	multiplies, besides := map[program.ValueID]bool{}, map[program.ValueID]bool{}
	for i := range p.Calls {
		c := &p.Calls[i]
		for k, v := range c.In {
			if program.Of(c.Op).Is(program.Product) && k == len(c.In)-2 {
				multiplies[v] = true
			} else {
				besides[v] = true
			}
		}
	}
	for _, id := range p.Inputs {
		v := &p.Values[id]
		n := len(v.Shape)
		if !v.DType.IsFloat() || !multiplies[id] || besides[id] || n < 2 || v.Shape[n-1] != v.Shape[n-2] ||
			v.Shape[n-1] < fewestRows {
			continue
		}
		g.Places++
		g.Fewer += v.Bytes()
		if len(g.Layers) < someLayers {
			g.Layers = append(g.Layers, v.Name)
		}
	}
	g.Name, g.Weighed, g.Fewer = sparseMatrices, true, min(g.Fewer, sim.Peak.Allocated)
	g.Takes = "square matrices that the model is given and multiplies by taken for dense ones"
	return g, g.Places > 0, nil
}
