package onnxload

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

// order returns the topological order of p's nodes, nil when they are in order
// already. Among the nodes that could come next, the first in the file does.
func (r *resolver) order(p *place, nodes []Node) ([]int32, error) {
	if p.sorted {
		return nil, nil
	}
	// Edges by counting: readers[start[k]:start[k+1]] read from node k.
	var from, to []int32
	edge := func(id ValueID, i int32) {
		if r.owner[id] == p.owner && r.producer[id] >= 0 {
			from = append(from, r.producer[id])
			to = append(to, i)
		}
	}
	for i := range nodes {
		for _, id := range nodes[i].In {
			edge(id, int32(i))
		}
	}
	for _, c := range p.deps {
		edge(c.id, c.node)
	}
	start := make([]int32, len(nodes)+1)
	waits := make([]int32, len(nodes))
	for k := range from {
		start[from[k]+1]++
		waits[to[k]]++
	}
	for i := range nodes {
		start[i+1] += start[i]
	}
	readers := make([]int32, len(to))
	fill := append([]int32(nil), start...)
	for k, f := range from {
		readers[fill[f]] = to[k]
		fill[f]++
	}
	var ready indexHeap
	for i := range nodes {
		if waits[i] == 0 {
			ready = append(ready, int32(i)) // ascending, hence a heap
		}
	}
	order := make([]int32, 0, len(nodes))
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int32)
		order = append(order, i)
		for _, k := range readers[start[i]:start[i+1]] {
			if waits[k]--; waits[k] == 0 {
				heap.Push(&ready, k)
			}
		}
	}
	if len(order) < len(nodes) {
		return nil, cycle(nodes, waits, from, to)
	}
	return order, nil
}

// cycle names the nodes of one cycle among those that still wait.
func cycle(nodes []Node, waits, from, to []int32) error {
	before := make([]int32, len(nodes)) // a node that i waits for and that waits itself
	for k := range from {
		if waits[from[k]] > 0 {
			before[to[k]] = from[k]
		}
	}
	at := int32(0)
	for waits[at] == 0 {
		at++
	}
	seen := make([]bool, len(nodes))
	for !seen[at] { // backwards from a node that waits, one comes round
		seen[at] = true
		at = before[at]
	}
	path := []string{cycleName(nodes, at)}
	for k := before[at]; k != at; k = before[k] {
		path = append(path, cycleName(nodes, k))
	}
	slices.Reverse(path[1:])
	return fmt.Errorf("cycle: %s", around(path))
}

// around writes a circle, what it begins with at its end too.
func around(path []string) string {
	path = append(path, path[0])
	if len(path) > 10 {
		path = append(append(path[:5:5], "..."), path[len(path)-4:]...)
	}
	return strings.Join(path, " -> ")
}

func cycleName(nodes []Node, i int32) string {
	if n := &nodes[i]; n.Name != "" {
		return fmt.Sprintf("%q", n.Name)
	}
	return nodeLabel(int(i), &nodes[i])
}

type indexHeap []int32

func (h indexHeap) Len() int           { return len(h) }
func (h indexHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h indexHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *indexHeap) Push(x any)        { *h = append(*h, x.(int32)) }
func (h *indexHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
