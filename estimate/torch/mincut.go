package torch

import "math"

// A network is a graph of capacities, of which minCut finds the least that parts one end from the other (Dinic's
// algorithm).
type network struct {
	first []int32 // by node: its first arc, -1 for none
	arcs  []arc   // each beside the one that takes it back
	path  []int32 // room for arcs that lead from one end to the other
}

type arc struct {
	to, next int32
	left     int64 // capacity
}

// unlimited is more than any program saves.
const unlimited = math.MaxInt64 / 4

func newNetwork(nodes, connections int) *network {
	g := &network{first: make([]int32, nodes), arcs: make([]arc, 0, 2*connections)}
	for i := range g.first {
		g.first[i] = -1
	}
	return g
}

func (g *network) connect(from, to int32, capacity int64) {
	g.arcs = append(g.arcs, arc{to, g.first[from], capacity}, arc{from, g.first[to], 0})
	g.first[from], g.first[to] = int32(len(g.arcs)-2), int32(len(g.arcs)-1)
}

// minCut saturates the network from node 0 to node 1 and returns which nodes are on the side of node 0. An end that
// no cut can part, since only unlimited arcs lead there, ends it.
func (g *network) minCut() []bool {
	level := make([]int32, len(g.first))
	at := make([]int32, len(g.first))
	queue := make([]int32, 0, len(g.first))
	for {
		for i := range level {
			level[i] = -1
		}
		level[0], queue = 0, append(queue[:0], 0)
		for k := 0; k < len(queue); k++ {
			for a := g.first[queue[k]]; a >= 0; a = g.arcs[a].next {
				if to := g.arcs[a].to; g.arcs[a].left > 0 && level[to] < 0 {
					level[to] = level[queue[k]] + 1
					queue = append(queue, to)
				}
			}
		}
		if level[1] < 0 {
			break
		}
		copy(at, g.first)
		for g.push(level, at) > 0 {
		}
	}
	side := make([]bool, len(level))
	for i := range side {
		side[i] = level[i] >= 0
	}
	return side
}

// push sends what it can along one path of rising levels. It walks instead of calling itself: programs are long.
func (g *network) push(level, at []int32) int64 {
	path := g.path[:0]
	defer func() { g.path = path }()
	node := int32(0)
	for {
		if node == 1 {
			least := int64(unlimited)
			for _, a := range path {
				least = min(least, g.arcs[a].left)
			}
			for _, a := range path {
				g.arcs[a].left -= least
				g.arcs[a^1].left += least
			}
			return least
		}
		a := at[node]
		for a >= 0 && !(g.arcs[a].left > 0 && level[g.arcs[a].to] == level[node]+1) {
			a = g.arcs[a].next
		}
		if at[node] = a; a >= 0 {
			path = append(path, a)
			node = g.arcs[a].to
			continue
		}
		if len(path) == 0 {
			return 0
		}
		level[node] = -1 // it leads nowhere
		last := path[len(path)-1]
		path = path[:len(path)-1]
		node = g.arcs[last^1].to
	}
}
