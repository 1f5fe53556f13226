package module

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// Fill returns a model in which the weights that the file fills instead of storing are initializers without
// data, and how many nodes that saves. ONNX's own light models are so: a ConstantOfShape of a constant shape where
// an operator wants a weight or a statistic. PyTorch has a parameter or a buffer there. A tensor of a shape that is
// computed, or that arrives elsewhere, is made by the program.
func Fill(m *onnxload.Model, operators Operators) (filled *onnxload.Model, saved int) {
	if !slices.ContainsFunc(m.Graph.Nodes, func(n onnxload.Node) bool { return isFill(&n) }) {
		return m, 0
	}
	weight, reads := make([]bool, len(m.Values)), make([]int, len(m.Values))
	countWeightReads(m.Graph, operators, weight, reads)
	made := map[onnxload.ValueID]*onnxload.Tensor{}
	shapes := map[onnxload.ValueID]int{} // by constant shape: how many of its readers are saved
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		if !isFill(n) || !weight[n.Output(0)] || slices.Contains(m.Graph.Outputs, n.Output(0)) {
			continue
		}
		if t := fillOf(m, n); t != nil {
			made[n.Output(0)] = t
			shapes[n.Input(0)]++
		}
	}
	if len(made) == 0 {
		return m, 0
	}
	out, g := *m, *m.Graph
	out.Graph, out.Values = &g, slices.Clone(m.Values)
	g.Inits = slices.DeleteFunc(slices.Clone(g.Inits), func(id onnxload.ValueID) bool {
		return shapes[id] > 0 && shapes[id] == reads[id]
	})
	g.Nodes = make([]onnxload.Node, 0, len(m.Graph.Nodes)-len(made))
	for _, n := range m.Graph.Nodes {
		if isFill(&n) && made[n.Output(0)] != nil {
			out.Values[n.Output(0)].Init = made[n.Output(0)]
			g.Inits = append(g.Inits, n.Output(0))
			continue
		}
		g.Nodes = append(g.Nodes, n)
	}
	return &out, len(made)
}

func isFill(n *onnxload.Node) bool {
	return n.Op == "ConstantOfShape" && n.Domain == "" && len(n.In) == 1 && len(n.Out) == 1 &&
		n.Input(0) != onnxload.NoValue && n.Output(0) != onnxload.NoValue
}

// fillOf returns the tensor that a ConstantOfShape makes, without its data: nil unless it is of a float type
// and of a shape that the file holds.
func fillOf(m *onnxload.Model, n *onnxload.Node) *onnxload.Tensor {
	size := m.Values[n.Input(0)].Init
	if size == nil || size.DType != onnxload.Int64 || len(size.Dims) != 1 || size.Dims[0] > smallTable {
		return nil
	}
	dims, err := m.Ints(size)
	if err != nil || slices.ContainsFunc(dims, func(d int64) bool { return d < 0 }) {
		return nil
	}
	elem := onnxload.Float32
	if a := n.Attr("value"); a != nil && len(a.Tensors) == 1 {
		elem = a.Tensors[0].DType
	}
	if !elem.IsFloat() {
		return nil
	}
	return &onnxload.Tensor{Name: m.NameOf(n.Output(0)), DType: elem, Dims: dims}
}

// countWeightReads notes by value how often nodes read it, and whether one of them does as a weight.
func countWeightReads(g *onnxload.Graph, operators Operators, weight []bool, reads []int) {
	for i := range g.Nodes {
		n := &g.Nodes[i]
		f := operators.Of(n.Domain, n.Op)
		for slot, id := range n.In {
			if id == onnxload.NoValue {
				continue
			}
			reads[id]++
			weight[id] = weight[id] || f.Weight(slot) || f.Buffer(slot)
		}
		for j := range n.Attrs {
			for _, sub := range n.Attrs[j].Graphs {
				countWeightReads(sub, operators, weight, reads)
			}
		}
	}
	for _, id := range g.Outputs {
		if id != onnxload.NoValue {
			reads[id]++
		}
	}
}
