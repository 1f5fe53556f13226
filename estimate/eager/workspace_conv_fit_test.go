package eager

import (
	"math"
	"math/bits"
	"slices"
	"sync"
)

// This file grows the forests of workspace_conv_forest.go from measured convolutions.

// A convSample is one measured pass.
type convSample struct {
	model   string // "" for a random shape
	fold    int
	shape   ConvShape
	pass    ConvPass
	work    convWork
	figures *convFeatures
	want    int64
	weight  int64  // larger tensors count more: they decide the peak
	hits    uint64 // the engines that give about what was measured,
	exact   uint64 // and nearly exactly
}

const (
	convTrees     = 16
	convFigures   = 10 // tried for each branch
	convLimits    = 95 // of each figure
	convDepth     = 24
	convLeast     = 3 // passes that an engine must be needed for
	convTolerance = 0.1
	convExact     = 0.0001
	convFolds     = 5
)

// nearConv says whether a size is that close to what was measured, or within the
// 8 KiB that decide nothing.
func nearConv(got, want int64, tolerance float64) bool {
	return math.Abs(float64(got-want)) <= max(tolerance*float64(want), 8192)
}

// growConvForests grows a forest for each kind of pass from the samples that use takes.
func growConvForests(samples []*convSample, use func(*convSample) bool) *convTable {
	t := &convTable{}
	kinds := map[*convForest][]*convSample{}
	for _, s := range samples {
		if use(s) {
			kinds[t.of(&s.work)] = append(kinds[t.of(&s.work)], s)
		}
	}
	var wait sync.WaitGroup
	for f, of := range kinds {
		wait.Go(func() {
			f.engines = coverSamples(of)
			g := newGrower(of, f.engines)
			for range convTrees {
				f.trees = append(f.trees, g.grow())
			}
		})
	}
	wait.Wait()
	return t
}

// possibleEngines are all that a forest may use, the simple ones first.
func possibleEngines() (all []convEngine) {
	add := func(copies convCopies, extra convExtra, counts ...int64) {
		for _, n := range counts {
			all = append(all, convEngine{copies, extra, n})
		}
	}
	parts := []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 19, 20, 22, 24, 25, 26, 28, 30, 32, 33, 36, 40, 44, 48, 50, 56,
		64, 66, 72, 75, 80, 88, 99, 112, 128, 132, 150, 196, 264, 392, 512}
	tiles := []int64{1, 2, 4, 6, 8, 12, 14, 15, 16, 21, 24, 26, 27, 28, 30, 32, 40, 44, 45, 48, 50, 52, 54, 56, 60, 62, 64, 66, 84, 88, 90, 96, 99, 104,
		108, 110, 112, 116, 120, 124, 126, 128, 130, 132, 160, 192, 198, 208, 224, 232, 240, 248, 256, 264}
	waves := []int64{smCount / 2, smCount, 2 * smCount, 3 * smCount, 4 * smCount, 8 * smCount}
	depths := []int64{16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1152, 1280, 1344, 1536, 1792, 2048,
		2560, 3072, 4096, 6144, 8192}
	for c := convCopies(0); c <= copyIn|copyOut|copyWeight; c++ {
		add(c, extraNone, 0)
	}
	for c := convCopies(1); c <= copyIn|copyOut|copyWeight; c++ {
		add(c|copyPlain, extraNone, 0)
	}
	for c := convCopies(0); c <= copyIn|copyOut|copyWeight; c++ {
		add(c, extraParts, parts...)
		add(c, extraPartsPadded, parts...)
		add(c, extraTiles, tiles...)
		add(c, extraImages, 0)
		for _, e := range []convExtra{extraWave128, extraWaveFlat, extraWave64} {
			add(c, e, waves...)
		}
		add(c, extraWaves, smCount, 2*smCount, 4*smCount)
		add(c, extraDepth, depths...)
		add(c, extraDepthPadded, depths...)
		add(c, extraShared, 0, 1, 2, 3)
	}
	for n := range int64(512) { // any number of parts: the first layers of image models have the largest
		add(copyIn|copyOut|copyWeight, extraPartsAligned, n+1)
	}
	add(0, extraWinograd, 2, 3, 4, 5, 6)
	add(0, extraPadded, 0, 1, 2, 4, 8, 16, 32, 64)
	add(0, extraPaddedSides, 0)
	add(0, extraPaddedTiles, 32, 64, 96, 112, 120, 128)
	add(0, extraLoop, 0)
	add(0, extraLoop, parts...)
	add(0, extraLoopSides, 0)
	add(0, extraDepthwise, parts...)
	return all
}

// coverSamples picks engines, first those that give what was measured nearly exactly, then
// those that come close to what is left, and marks the samples with them.
func coverSamples(samples []*convSample) []convEngine {
	all := possibleEngines()
	picked := []convEngine{{}} // nothing at all
	given := make([]bool, len(samples))
	for _, tolerance := range []float64{convExact, convTolerance / 3} {
		gives := make([][]int, len(all))
		for i, e := range all {
			for j, s := range samples {
				if nearConv(s.work.bytes(e), s.want, tolerance) {
					gives[i] = append(gives[i], j)
				}
			}
			if slices.Contains(picked, e) {
				for _, j := range gives[i] {
					given[j] = true
				}
			}
		}
		for len(picked) < maxConvEngines {
			best, most := 0, convLeast-1
			for i := range all {
				n := 0
				for _, j := range gives[i] {
					if !given[j] {
						n++
					}
				}
				if n > most {
					best, most = i, n
				}
			}
			if most < convLeast {
				break
			}
			picked = append(picked, all[best])
			for _, j := range gives[best] {
				given[j] = true
			}
		}
	}
	for _, s := range samples {
		s.hits, s.exact = 0, 0
		for i, e := range picked {
			if got := s.work.bytes(e); nearConv(got, s.want, convTolerance) {
				s.hits |= 1 << i
				if nearConv(got, s.want, convExact) {
					s.exact |= 1 << i
				}
			}
		}
	}
	return picked
}

// A grower grows the trees of one forest: random ones (Breiman 2001), of all samples,
// with a random choice of figures for each branch.
type grower struct {
	samples []*convSample
	engines int
	limits  [][]float32
	bins    [][]uint8 // of each figure and sample: the first limit that it is within
	random  uint64
	tree    []convNode
}

func newGrower(samples []*convSample, engines []convEngine) *grower {
	g := &grower{samples: samples, engines: len(engines), random: 88172645463325252}
	for f := range len(convFeatures{}) {
		values := make([]float32, len(samples))
		for i, s := range samples {
			values[i] = s.figures[f]
		}
		slices.Sort(values)
		distinct := slices.Compact(slices.Clone(values))
		var limits []float32
		if len(distinct) <= convLimits {
			for i := range len(distinct) - 1 {
				limits = append(limits, between(distinct[i], distinct[i+1]))
			}
		} else {
			for q := 1; q <= convLimits; q++ {
				i, _ := slices.BinarySearch(distinct, values[q*len(values)/(convLimits+1)])
				if i+1 < len(distinct) {
					limits = append(limits, between(distinct[i], distinct[i+1]))
				}
			}
			limits = slices.Compact(limits)
		}
		bins := make([]uint8, len(samples))
		for i, s := range samples {
			b, _ := slices.BinarySearch(limits, s.figures[f])
			bins[i] = uint8(b)
		}
		g.limits, g.bins = append(g.limits, limits), append(g.bins, bins)
	}
	return g
}

// between is the geometric mean, which is a round figure for those that are not.
func between(a, b float32) float32 {
	if a <= 0 {
		return (a + b) / 2
	}
	return float32(math.Sqrt(float64(a) * float64(b)))
}

func (g *grower) intn(n int) int { // Marsaglia's xorshift
	g.random ^= g.random << 13
	g.random ^= g.random >> 7
	g.random ^= g.random << 17
	return int((g.random >> 11) % uint64(n))
}

func (g *grower) grow() []convNode {
	all := make([]int32, len(g.samples))
	for i := range all {
		all[i] = int32(i)
	}
	g.tree = nil
	g.branch(all, 0)
	return g.tree
}

// tally counts the weight of samples that each engine gives.
type engineTally struct {
	of     [maxConvEngines]int64
	weight int64
	n      int
}

func (t *engineTally) add(s *convSample, sign int64) {
	for h := s.hits; h != 0; h &= h - 1 {
		t.of[bits.TrailingZeros64(h)] += sign * s.weight
	}
	for h := s.exact; h != 0; h &= h - 1 {
		t.of[bits.TrailingZeros64(h)] += sign * s.weight
	}
	t.weight += sign * s.weight
	t.n += int(sign)
}

// purity is the larger the fewer engines are needed (the weighted Gini index). All of it
// is in whole numbers but the quotient, so that every machine grows the same tree.
func (t *engineTally) purity(engines int) float64 {
	if t.weight == 0 {
		return 0
	}
	sum := int64(0)
	for _, v := range t.of[:engines] {
		sum += v * v
	}
	return float64(sum) / float64(t.weight)
}

func (g *grower) branch(of []int32, depth int) {
	var all engineTally
	common := ^uint64(0)
	for _, i := range of {
		all.add(g.samples[i], 1)
		if s := g.samples[i]; s.exact != 0 {
			common &= s.exact
		} else {
			common &= s.hits
		}
	}
	best := 0
	for e := range g.engines {
		if all.of[e] > all.of[best] {
			best = e
		}
	}
	at := len(g.tree)
	g.tree = append(g.tree, convNode{figure: convLeaf, above: uint16(best)})
	if common != 0 || depth >= convDepth {
		return
	}
	figure, limit, gain := -1, 0, all.purity(g.engines)+1e-9
	order := make([]int, len(g.limits))
	for i := range order {
		order[i] = i
	}
	var bins [convLimits + 1][]int32
	for i, tried := 0, 0; i < len(order) && tried < convFigures; i++ {
		j := i + g.intn(len(order)-i)
		order[i], order[j] = order[j], order[i]
		f := order[i]
		lowest, highest := convLimits, 0
		for b := range bins {
			bins[b] = bins[b][:0]
		}
		for _, s := range of {
			b := int(g.bins[f][s])
			lowest, highest = min(lowest, b), max(highest, b)
			bins[b] = append(bins[b], s)
		}
		if lowest == highest {
			continue
		}
		tried++
		var below engineTally
		above := all
		for b := lowest; b < highest; b++ {
			if len(bins[b]) == 0 {
				continue
			}
			for _, s := range bins[b] {
				below.add(g.samples[s], 1)
				above.add(g.samples[s], -1)
			}
			if v := below.purity(g.engines) + above.purity(g.engines); v > gain {
				figure, limit, gain = f, b, v
			}
		}
	}
	if figure < 0 {
		return
	}
	var below, above []int32
	for _, s := range of {
		if int(g.bins[figure][s]) <= limit {
			below = append(below, s)
		} else {
			above = append(above, s)
		}
	}
	g.tree[at] = convNode{figure: uint8(figure), limit: g.limits[figure][limit]}
	g.branch(below, depth+1)
	g.tree[at].above = uint16(len(g.tree))
	g.branch(above, depth+1)
}
