package kernels

import (
	_ "embed"
	"sync"
)

// Of most passes cuDNN offers the engine that runs without a GPU as well. Two kinds it does not: the products of
// matrices that it leaves to cuBLAS, of 1x1 filters, and Fourier transforms in float32. How likely one runs is the sum
// of what trees say, which have grown on the GPU's answers by gradient boosting (Friedman 2001): natural logarithms of
// the odds, in units of oddsUnits.

const oddsUnits = 32

// convOddsFile is generated, by
//
//	go test ./simulate/kernels -run TestConvOdds -odds.write
//
// It has the format of convForestFile. Forests have no engines: what trees name are their sums, an int8 each.
//
//go:embed conv_odds.bin
var convOddsFile string

// convOdds looks at each forest when the first convolution asks it.
var convOdds = func() (all [convKinds]func() convForest) {
	for kind := range all {
		all[kind] = sync.OnceValue(func() convForest { return readConvForest(convOddsFile, kind) })
	}
	return all
}()

// isProduct says whether a pass is a product of matrices.
func (w *convWork) isProduct() bool {
	return w.filter == 1 && w.stride == 1 && w.groups == 1 && w.xPixels == w.yPixels
}

// An unofferedEngine is one that cuDNN does not offer without a GPU, and what it takes.
type unofferedEngine struct {
	convEngine
	bytes int64
	kind  int // of the odds that it runs
}

// unoffered lists those of a pass, all of row-major ones. Forests of convOdds are numbered as convForests, with
// transforms where those have channels last: of Fourier, and of Winograd where those have 2 bytes. Of products in
// channels-last order cuBLAS sums some in parts, of which it is not known how many.
func (w *convWork) unoffered() (all []unofferedEngine) {
	add := func(e convEngine, after int) {
		if w.extra(e) != impossible {
			all = append(all, unofferedEngine{e, w.bytes(e), w.convKind() + after})
		}
	}
	switch {
	case w.last:
	case w.isProduct() && w.pass == ConvBackwardWeight:
		add(convEngine{extra: extraImages}, 0)
	case w.isProduct():
		add(convEngine{}, 0)
	case w.elem != 4:
	case w.pass == ConvBackwardInput:
		add(convEngine{extra: extraTiledFFT}, 2)
	case w.pass == ConvForward:
		add(convEngine{extra: extraFFT}, 2)
	default:
		add(convEngine{extra: extraFFT}, 2)
		if w.dilation == 1 && w.dims == 2 {
			add(convEngine{extra: extraWinograd, count: winogradTile}, 3)
		}
	}
	return all
}

// winogradTile is the side of the results of a tile that cuDNN transforms for the gradient of w.
const winogradTile = 4

// odds returns the natural logarithm of those that an engine runs, and whether they are known.
func (e *unofferedEngine) odds(figures *convFeatures) (logarithm float64, known bool) {
	f := convOdds[e.kind]()
	sums, n := f.leaves(figures)
	if n == 0 {
		return 0, false
	}
	sum := 0
	for _, v := range sums[:f.trees] {
		sum += int(int8(v))
	}
	return float64(sum) / oddsUnits, true
}
