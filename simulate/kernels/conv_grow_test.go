package kernels

import (
	"math"
	"slices"
	"sync"
)

const (
	maxConvEngines = 255 // of one forest
	maxConvLimits  = 63  // of one figure
)

// convLimits are what the figures are compared with, ascending for each.
type convLimits [convFigures][]float32

// convLimitsOf chooses what the figures are compared with, for all forests: the middles
// between values, or of many values those at even shares of the samples.
func convLimitsOf(samples []*convSample, use func(*convSample) bool) (limits convLimits) {
	var wait sync.WaitGroup
	for f := range limits {
		wait.Go(func() {
			var values []float32
			for _, s := range samples {
				if use(s) {
					values = append(values, s.figures[f])
				}
			}
			slices.Sort(values)
			distinct := slices.Compact(slices.Clone(values))
			if len(distinct) <= maxConvLimits {
				for i := range len(distinct) - 1 {
					limits[f] = append(limits[f], between(distinct[i], distinct[i+1]))
				}
				return
			}
			for q := 1; q <= maxConvLimits; q++ {
				i, _ := slices.BinarySearch(distinct, values[q*len(values)/(maxConvLimits+1)])
				if i+1 < len(distinct) {
					limits[f] = append(limits[f], between(distinct[i], distinct[i+1]))
				}
			}
			limits[f] = slices.Compact(limits[f])
		})
	}
	wait.Wait()
	return limits
}

// between is the geometric mean, which is a round figure for those that are not.
func between(a, b float32) float32 {
	if a <= 0 {
		return (a + b) / 2
	}
	return float32(math.Sqrt(float64(a) * float64(b)))
}

// A grower grows the trees of one forest: random ones (Breiman 2001), of all samples,
// with a random choice of figures for each branch. All of it is in whole numbers but a
// quotient, so that every machine grows the same trees.
type grower struct {
	engines [][]uint8 // of each sample those that give what was measured
	engine  []uint8   // and which of them counts at the branch that is looked at
	share   []uint16
	asked   []bool
	bins    [convFigures][]uint8 // of each figure and sample: the first limit that it is within
	random  uint64
	order   [convFigures]int
	tree    []convBranch
	counts  [maxConvEngines]int64 // of the engines of a branch
	below   [maxConvEngines]int64 // and of those below a limit
	sorted  []int32
	rest    []int32
}

func newGrower(samples []*convSample, limits *convLimits) *grower {
	g := &grower{}
	samples = slices.DeleteFunc(slices.Clone(samples), func(s *convSample) bool { return len(s.engines) == 0 })
	for _, s := range samples {
		g.engines, g.share = append(g.engines, s.engines), append(g.share, s.share)
		g.asked = append(g.asked, s.asked)
	}
	g.engine = make([]uint8, len(samples))
	for f := range g.bins {
		g.bins[f] = make([]uint8, len(samples))
		for i, s := range samples {
			b, _ := slices.BinarySearch(limits[f], s.figures[f])
			g.bins[f][i] = uint8(b)
		}
	}
	g.sorted, g.rest = make([]int32, len(samples)), make([]int32, len(samples))
	return g
}

func (g *grower) intn(n int) int { // Marsaglia's xorshift
	g.random ^= g.random << 13
	g.random ^= g.random >> 7
	g.random ^= g.random << 17
	return int((g.random >> 11) % uint64(n))
}

// grow returns the tree of that number: those that choose have grown on all samples, those
// that doubt on three quarters of the measured convolutions each.
func (g *grower) grow(number int) []convBranch {
	g.random = 88172645463325252 + uint64(number)*0x9e3779b97f4a7c15
	for f := range g.order {
		g.order[f] = f
	}
	var of []int32
	for i := range g.engines {
		if number < convTrees || !g.asked[i] && g.share[i]>>(2*(number-convTrees))&3 != 0 {
			of = append(of, int32(i))
		}
	}
	g.tree = nil
	g.branch(of, 0)
	return g.tree
}

// choose names one of each sample's engines: the one that most of those at this branch could have, so that no
// question is asked where one engine would do for all.
func (g *grower) choose(of []int32) {
	var could [maxConvEngines]int32
	for _, s := range of {
		for _, e := range g.engines[s] {
			could[e]++
		}
	}
	for _, s := range of {
		best := g.engines[s][0]
		for _, e := range g.engines[s] {
			if could[e] > could[best] {
				best = e
			}
		}
		g.engine[s] = best
	}
}

// branch adds the node of those samples and what follows from it. The best question is
// the one with the fewest different engines on its sides (the Gini index). It orders of anew.
func (g *grower) branch(of []int32, depth int) {
	if len(of) == 0 {
		g.tree = append(g.tree, convBranch{leaf: true})
		return
	}
	g.choose(of)
	most, squares := g.engine[of[0]], int64(0)
	for _, s := range of {
		e := g.engine[s]
		squares += 2*g.counts[e] + 1
		g.counts[e]++
		if n := g.counts[e]; n > g.counts[most] || n == g.counts[most] && e < most {
			most = e
		}
	}
	at := len(g.tree)
	g.tree = append(g.tree, convBranch{leaf: true, engine: most})
	figure, limit := -1, uint8(0)
	if g.counts[most] < int64(len(of)) && depth < convDepth && len(of) >= convAsked {
		figure, limit = g.question(of, squares)
	}
	for _, s := range of {
		g.counts[g.engine[s]] = 0
	}
	if figure < 0 {
		return
	}
	n, rest := 0, g.rest[:0]
	for _, s := range of {
		if g.bins[figure][s] <= limit {
			of[n] = s
			n++
		} else {
			rest = append(rest, s)
		}
	}
	copy(of[n:], rest)
	g.tree[at] = convBranch{figure: uint8(figure), limit: limit}
	g.branch(of[:n], depth+1)
	g.tree[at].above = len(g.tree)
	g.branch(of[n:], depth+1)
	if low, high := g.tree[at+1], g.tree[g.tree[at].above]; low.leaf && high.leaf && low.engine == high.engine {
		g.tree = append(g.tree[:at], low)
	}
}

// question returns the best question to samples, of which counts holds the engines and
// squares the sum of their squares.
func (g *grower) question(of []int32, squares int64) (figure int, limit uint8) {
	figure = -1
	gain := float64(squares)/float64(len(of)) + 1e-9
	for i, tried := 0, 0; i < convFigures && tried < convTried; i++ {
		j := i + g.intn(convFigures-i)
		g.order[i], g.order[j] = g.order[j], g.order[i]
		bins := g.bins[g.order[i]]
		sorted := g.sort(of, bins)
		if sorted == nil {
			continue
		}
		tried++
		squaresBelow, squaresAbove := int64(0), squares
		for k, s := range sorted[:len(sorted)-1] {
			e := g.engine[s]
			below := g.below[e]
			squaresBelow += 2*below + 1
			squaresAbove -= 2*(g.counts[e]-below) - 1
			g.below[e]++
			if bins[s] != bins[sorted[k+1]] {
				if v := float64(squaresBelow)/float64(k+1) + float64(squaresAbove)/float64(len(sorted)-k-1); v > gain {
					figure, limit, gain = g.order[i], bins[s], v
				}
			}
		}
		for _, s := range sorted {
			g.below[g.engine[s]] = 0
		}
	}
	return figure, limit
}

// sort orders samples by their bins, nil where all have the same. The result is good
// until the next.
func (g *grower) sort(of []int32, bins []uint8) []int32 {
	lowest, highest := uint8(255), uint8(0)
	for _, s := range of {
		lowest, highest = min(lowest, bins[s]), max(highest, bins[s])
	}
	if lowest == highest {
		return nil
	}
	var starts [257]int32
	for _, s := range of {
		starts[bins[s]-lowest+1]++
	}
	for b := range int(highest - lowest) {
		starts[b+1] += starts[b]
	}
	sorted := g.sorted[:len(of)]
	for _, s := range of {
		b := bins[s] - lowest
		sorted[starts[b]] = s
		starts[b]++
	}
	return sorted
}
