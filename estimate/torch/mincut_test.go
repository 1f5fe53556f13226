package torch

import (
	"math/rand/v2"
	"testing"
)

// The cut of small networks is as cheap as the cheapest of all that there are.
func TestMinCut(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		const nodes = 8
		g := newNetwork(nodes, 0)
		var arcs [][3]int64
		for range 20 {
			a, b := random.IntN(nodes), random.IntN(nodes)
			if a == b || a == 1 || b == 0 || a == 0 && b == 1 {
				continue
			}
			c := int64(random.IntN(9))
			arcs = append(arcs, [3]int64{int64(a), int64(b), c})
			g.connect(int32(a), int32(b), c)
		}
		cost := func(side func(int64) bool) (sum int64) {
			for _, a := range arcs {
				if side(a[0]) && !side(a[1]) {
					sum += a[2]
				}
			}
			return sum
		}
		best := int64(unlimited)
		for set := range 1 << nodes {
			if set&1 == 1 && set&2 == 0 {
				best = min(best, cost(func(n int64) bool { return set>>n&1 == 1 }))
			}
		}
		side := g.minCut()
		if !side[0] || side[1] {
			t.Fatalf("the cut parts nothing: %v", side)
		}
		if got := cost(func(n int64) bool { return side[n] }); got != best {
			t.Errorf("%v: a cut of %d, want %d", arcs, got, best)
		}
	}
}
