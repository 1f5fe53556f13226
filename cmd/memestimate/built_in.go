package main

import (
	"regexp"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// nameSizes gives the dimensions of a built-in model's input their usual names: the first, which torch.export calls
// "s23", is "batch", and the last ones are those that --dim gives other sizes than the graph was exported with. What
// the file says of the values between holds for its own sizes only; the rules find it out anew.
func nameSizes(m *onnxload.Model, sizes []string) {
	if len(m.Graph.Inputs) == 0 {
		return
	}
	input := m.Values[m.Graph.Inputs[0]].Declared
	if input == nil || len(input.Dims) == 0 {
		return
	}
	if first := input.Dims[0].Param; first != "" && first != "batch" {
		symbol := regexp.MustCompile(`\b` + regexp.QuoteMeta(first) + `\b`) // also in expressions
		renamed := map[*onnxload.Type]bool{}                                // values share their types
		for i := range m.Values {
			t := m.Values[i].Declared
			if t == nil || renamed[t] {
				continue
			}
			renamed[t] = true
			for k := range t.Dims {
				t.Dims[k].Param = symbol.ReplaceAllString(t.Dims[k].Param, "batch")
			}
		}
	}
	if len(sizes) == 0 {
		return
	}
	named := *input
	named.Dims = slices.Clone(input.Dims)
	for i, name := range sizes {
		named.Dims[len(named.Dims)-len(sizes)+i].Param = name
	}
	for i := range m.Values {
		if !slices.Contains(m.Graph.Inputs, onnxload.ValueID(i)) && m.Values[i].Init == nil {
			m.Values[i].Declared = nil
		}
	}
	m.Values[m.Graph.Inputs[0]].Declared = &named
}
