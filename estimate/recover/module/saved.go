package module

import "github.com/memestimate/memestimate/onnxload"

// AddSaved gives each layer what the nodes of its steps save, and returns the sum. Nodes in execution order cost least.
func (a *Analysis) AddSaved(rows []Layer, nodes []*onnxload.Node, saved []int64) (sum int64) {
	steps := stepFinder{a: a}
	var all map[*onnxload.Node]int32 // steps by their nodes; nil until one is asked for out of order
	for i, n := range nodes[:min(len(nodes), len(saved))] {
		k := steps.next(n)
		if saved[i] == 0 {
			continue
		}
		if k < 0 {
			if all == nil {
				all = make(map[*onnxload.Node]int32, len(a.Steps))
				for j := range a.Steps {
					all[a.Steps[j].Node] = int32(j)
				}
			}
			j, ok := all[n]
			if !ok {
				continue
			}
			k = int(j)
		}
		if row := a.rowOf[k]; row >= 0 {
			rows[row].SavedBytes += saved[i]
			sum += saved[i]
		}
	}
	return sum
}
