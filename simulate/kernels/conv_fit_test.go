package kernels

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/simulate/gpu"
)

// This file grows the forests of conv_forest.go from measured convolutions.

// A convSample is one measured pass.
type convSample struct {
	model   string // "" for a random shape
	family  int    // which of convFolds it is held out in: by the model's family,
	fold    int    // and by the convolution, whatever its batch,
	share   uint16 // and which of the trees that doubt have grown on it
	shape   *ConvShape
	pass    ConvPass
	work    convWork
	figures convFeatures
	want    int64
	asked   bool    // of cuDNN, and not measured
	engines []uint8 // those that give what was measured
}

const (
	convTrees = 16 // which choose, and convDoubts more
	convTried = 12 // figures, for each branch
	convDepth = 30
	convAsked = 10 // passes that a branch must part: fewer keep the engine of most
	convLeast = 3  // passes that an engine must be needed for
	convFolds = 5
)

// nearConv says whether a size is that close to what was measured, or within the
// 8 KiB that decide nothing.
func nearConv(got, want int64, tolerance float64) bool {
	return math.Abs(float64(got-want)) <= max(tolerance*float64(want), 8192)
}

// growConvForests grows a forest for each kind of pass from the samples that use takes.
func growConvForests(samples []*convSample, use func(*convSample) bool) (forests [convKinds]grownForest,
	limits convLimits) {
	var kinds [convKinds][]*convSample
	for _, s := range samples {
		if use(s) {
			kind := s.work.convKind()
			kinds[kind] = append(kinds[kind], s)
		}
	}
	// Limits, engines and the trees that doubt are those of what was measured: what was asked is of few kinds, of float32
	// alone, and neither other forests are to change by it nor how much the trees doubt.
	limits = convLimitsOf(samples, func(s *convSample) bool { return use(s) && !s.asked })
	var wait sync.WaitGroup
	for kind, of := range kinds {
		wait.Go(func() {
			f := &forests[kind]
			f.engines = coverSamples(slices.DeleteFunc(slices.Clone(of), func(s *convSample) bool { return s.asked }))
			nameEngines(of, f.engines)
			g := newGrower(of, &limits)
			for i := range convTrees + convDoubts {
				f.trees = append(f.trees, g.grow(i))
			}
		})
	}
	wait.Wait()
	read := readConvForests(string(encodeConvForests(0, &limits, &forests)))
	for kind, of := range kinds {
		forests[kind].list(of, &read[kind])
	}
	return forests, limits
}

// list finds the convolutions that the trees get wrong though an engine gives them.
func (f *grownForest) list(samples []*convSample, read *convForest) {
	for _, s := range samples {
		off := s.wrong(s.chosen(read).bytes)
		if off <= nearExact(s.want) || len(s.engines) == 0 {
			continue
		}
		best := slices.MinFunc(s.engines, func(a, b uint8) int {
			return cmp.Compare(s.off(f.engines[a]), s.off(f.engines[b]))
		})
		if s.off(f.engines[best]) < off {
			f.known = append(f.known, knownConv{convHash(s.shape, s.pass), best})
		}
	}
	slices.SortStableFunc(f.known, func(a, b knownConv) int { return cmp.Compare(a.hash, b.hash) })
	f.known = slices.CompactFunc(f.known, func(a, b knownConv) bool { return a.hash == b.hash })
}

// wrong is by how much a size is not what was measured.
func (s *convSample) wrong(bytes int64) int64 { return max(bytes-s.want, s.want-bytes) }

// possibleEngines are those without a count, and some with: the fewer there are, the
// more convolutions share each.
func possibleEngines() (all []convEngine) {
	add := func(copies convCopies, extra convExtra, counts ...int64) {
		for _, n := range counts {
			all = append(all, convEngine{copies, extra, n})
		}
	}
	sms := int64(gpu.Default().Multiprocessors)
	waves := []int64{sms / 2, sms, 2 * sms, 3 * sms, 4 * sms, 8 * sms}
	depths := []int64{16, 32, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1152, 1280, 1344,
		1536, 1792, 2048,
		2560, 3072, 4096, 6144, 8192}
	for c := convCopies(0); c <= copyIn|copyOut|copyWeight; c++ {
		add(c, extraNone, 0)
	}
	for c := convCopies(1); c <= copyIn|copyOut|copyWeight; c++ {
		add(c|copyPlain, extraNone, 0)
	}
	for c := convCopies(0); c <= copyIn|copyOut|copyWeight; c++ {
		add(c, extraImages, 0)
		for _, e := range []convExtra{extraWave128, extraWaveFlat, extraWave64} {
			add(c, e, waves...)
		}
		add(c, extraWaves, sms, 2*sms, 4*sms)
		add(c, extraDepth, depths...)
		add(c, extraDepthPadded, depths...)
		add(c, extraShared, 0, 1, 2, 3)
	}
	add(0, extraWinograd, 2, 3, 4, 5, 6)
	add(0, extraFFT, 0)
	add(0, extraPadded, 0)
	add(0, extraPaddedSides, 0)
	add(0, extraLoop, 0)
	add(0, extraLoopSides, 0)
	return all
}

// countedEngines are those of which a count is asked: how many tiles, or partial results.
func countedEngines() (all []convEngine) {
	for c := convCopies(0); c <= copyIn|copyOut|copyWeight; c++ {
		for _, e := range []convExtra{extraTiles, extraParts, extraPartsPadded, extraPartsAligned, extraBlocks} {
			all = append(all, convEngine{c, e, 1})
		}
	}
	for _, e := range []convExtra{extraPadded, extraPaddedTiles, extraLoop, extraDepthwise} {
		all = append(all, convEngine{0, e, 1})
	}
	return all
}

// off returns how far an engine is from what was measured.
func (s *convSample) off(e convEngine) int64 {
	if s.work.extra(e) == impossible {
		return math.MaxInt64
	}
	return s.wrong(s.work.bytes(e))
}

// count returns the count with which an engine comes closest, 1 or more.
func (s *convSample) count(e convEngine) int64 {
	e.count = 1
	if s.work.extra(e) == impossible {
		return 1
	}
	one := s.work.bytes(e)
	e.count = 2
	step := s.work.bytes(e) - one
	if step <= 0 {
		return 1
	}
	return min(max((s.want-one+step/2)/step+1, 1), math.MaxUint16)
}

// fits returns the engines that give what was measured within a tolerance.
func (s *convSample) fits(tolerance int64, fixed, counted []convEngine) (fits []convEngine) {
	for _, e := range fixed {
		if s.off(e) <= tolerance {
			fits = append(fits, e)
		}
	}
	for _, e := range counted {
		e.count = s.count(e)
		if s.off(e) <= tolerance {
			fits = append(fits, e)
		}
	}
	return fits
}

// coverSamples picks engines, first those that give what was measured exactly, but for what
// engines note down besides, then those that come closer and closer to what is left: each
// time the one that most of the rest needs, of several the simplest.
func coverSamples(samples []*convSample) []convEngine {
	fixed, counted := possibleEngines(), countedEngines()
	picked := []convEngine{{}} // nothing at all
	rest := slices.Clone(samples)
	for _, near := range []func(want int64) int64{nearExact, nearEnough, nearRoughly} {
		rest = slices.DeleteFunc(rest, func(s *convSample) bool {
			return slices.ContainsFunc(picked, func(e convEngine) bool { return s.off(e) <= near(s.want) })
		})
		index := map[convEngine]int{}
		var engines []convEngine
		var gives [][]int32
		for j, s := range rest {
			for _, e := range s.fits(near(s.want), fixed, counted) {
				i, ok := index[e]
				if !ok {
					i = len(engines)
					index[e] = i
					engines, gives = append(engines, e), append(gives, nil)
				}
				gives[i] = append(gives[i], int32(j))
			}
		}
		given := make([]bool, len(rest))
		for len(picked) < maxConvEngines {
			best, most := -1, convLeast-1
			for i := range gives {
				if len(gives[i]) < max(most, convLeast) {
					continue
				}
				gives[i] = slices.DeleteFunc(gives[i], func(j int32) bool { return given[j] })
				if n := len(gives[i]); n > most || n == most && best >= 0 && simpler(engines[i], engines[best]) {
					best, most = i, n
				}
			}
			if best < 0 {
				break
			}
			picked = append(picked, engines[best])
			for _, j := range gives[best] {
				given[j] = true
			}
		}
	}
	return picked
}

// simpler orders engines.
func simpler(a, b convEngine) bool {
	if a.extra != b.extra {
		return a.extra < b.extra
	}
	if a.copies != b.copies {
		return a.copies < b.copies
	}
	return a.count < b.count
}

// How near an engine must come: within what is noted down besides; within what decides
// nothing; within the tolerance of a prediction.
func nearExact(want int64) int64 {
	if want <= 8192 {
		return 8192
	}
	return max(1024, min(want/8192, 8192))
}
func nearEnough(want int64) int64  { return max(want/2000, 8192) }
func nearRoughly(want int64) int64 { return max(want/30, 8192) }
func nearAtAll(want int64) int64   { return max(want/10, 8192) }

// nameEngines finds which engines give what was measured of each sample, of those the nearest.
func nameEngines(samples []*convSample, engines []convEngine) {
	for _, s := range samples {
		s.engines = nil
		for _, near := range []func(int64) int64{nearExact, nearEnough, nearRoughly, nearAtAll} {
			for i, e := range engines {
				if s.off(e) <= near(s.want) {
					s.engines = append(s.engines, uint8(i))
				}
			}
			if len(s.engines) > 0 {
				break
			}
		}
	}
}
