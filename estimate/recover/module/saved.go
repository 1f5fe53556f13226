package module

import "github.com/memestimate/memestimate/onnxload"

// AddSaved gives each layer what the nodes of its steps save, and returns the sum.
func (a *Analysis) AddSaved(rows []Layer, nodes []*onnxload.Node, saved []int64) (sum int64) {
	steps := make(map[*onnxload.Node]int, len(a.Steps))
	for k := range a.Steps {
		steps[a.Steps[k].Node] = k
	}
	for i, n := range nodes[:min(len(nodes), len(saved))] {
		k, ok := steps[n]
		if !ok || saved[i] == 0 {
			continue
		}
		if row := a.rowOf[k]; row >= 0 {
			rows[row].SavedBytes += saved[i]
			sum += saved[i]
		}
	}
	return sum
}
