package workspace

import (
	_ "embed"
	"math"
)

// A convForest chooses engines: each of its trees names one. The last trees doubt: each has
// not seen a quarter of the convolutions, so that they disagree about what is unlike all
// others. There is one forest for each
// pass, element size and memory format. It is read where it lies in the embedded file,
// without being decoded: a start that meets no convolution costs nothing, and one that
// does reads the few pages that its trees lead to.
//
// The file is made of
//
//	hash      4 bytes, of the measurements that it has grown from
//	forests   4 bytes each: where it starts
//	figures   2 bytes each: where its limits start; and where the last ones end
//	limits    4 bytes each (float32), ascending for each figure
//	forests   the number of engines, 4 bytes for each (copies, extra, 2 of count), the
//	          number of trees, 4 bytes for each: where it starts, from the forest's start
//	trees
//
// in little-endian order. A tree is one branch; a branch is a byte with a figure and
// which of its two sides are engines, and a byte with which of the figure's limits it
// compares with. One byte follows for each side that is an engine, the lower first. Where
// both are branches, 2 bytes say where the upper one starts, counted from the next byte,
// where the lower one does. Else the only branch follows.
type convForest struct {
	file, forest string
}

const (
	convPasses     = 3
	convKinds      = 2 * 2 * convPasses
	convFigures    = len(convFeatures{})
	maxConvEngines = 255 // of one forest
	maxConvTrees   = 64
	convDoubts     = 8 // the last trees have grown on three quarters of the convolutions each
	// What a branch's first byte says besides the figure.
	convLowLeaf  = 0x80
	convHighLeaf = 0x40
	// Where the parts of a file start.
	convForestsAt = 4
	convLimitsAt  = convForestsAt + 4*convKinds
	convLimits0   = convLimitsAt + 2*(convFigures+1)
)

// convForestFile is generated, by
//
//	go test ./estimate/workspace -run TestConvForests -conv.write
//
// from testdata/convolutions.bin.gz; the test of that name checks that it is current.
//
//go:embed conv_forest.bin
var convForestFile string

// convKind numbers the forests.
func (w *convWork) convKind() int {
	kind := 4 * int(w.pass)
	if w.last {
		kind += 2
	}
	if w.elem == 2 {
		kind++
	}
	return kind
}

// convForestOf returns the forest of a kind; it has no engines if the file is damaged.
func convForestOf(file string, kind int) convForest {
	if len(file) < convLimits0 {
		return convForest{}
	}
	at := little32(file, convForestsAt+4*kind)
	if at >= len(file) {
		return convForest{}
	}
	return convForest{file, file[at:]}
}

func little16(s string, at int) int {
	return int(s[at]) | int(s[at+1])<<8
}

func little32(s string, at int) int {
	return int(s[at]) | int(s[at+1])<<8 | int(s[at+2])<<16 | int(s[at+3])<<24
}

// engines returns how many engines the forest has, in the order of their frequency.
func (f convForest) engines() int {
	if len(f.forest) == 0 {
		return 0
	}
	n := int(f.forest[0])
	if n > maxConvEngines || len(f.forest) < 2+4*n {
		return 0
	}
	return n
}

// engine returns one of them.
func (f convForest) engine(i int) convEngine {
	at := 1 + 4*i
	return convEngine{convCopies(f.forest[at]), convExtra(f.forest[at+1]), int64(little16(f.forest, at+2))}
}

// leaves asks every tree, and returns the engine that each names: first those that choose, then
// the convDoubts that doubt. A damaged forest has none.
func (f convForest) leaves(figures *convFeatures) (leaves [maxConvTrees]uint8, choose int) {
	engines := f.engines()
	if engines == 0 {
		return leaves, 0
	}
	starts := 2 + 4*engines
	trees := int(f.forest[starts-1])
	if trees <= convDoubts || trees > maxConvTrees || len(f.forest) < starts+4*trees {
		return leaves, 0
	}
	var limits [convFigures]string
	for i := range limits {
		from, to := little16(f.file, convLimitsAt+2*i), little16(f.file, convLimitsAt+2*i+2)
		if from <= to && convLimits0+4*to <= len(f.file) {
			limits[i] = f.file[convLimits0+4*from : convLimits0+4*to]
		}
	}
	for t := range trees {
		at := little32(f.forest, starts+4*t)
		if at > len(f.forest) {
			return leaves, 0
		}
		e := convLeaf(f.forest[at:], figures, &limits)
		if e >= engines {
			return leaves, 0
		}
		leaves[t] = uint8(e)
	}
	return leaves, trees - convDoubts
}

// convLeaf follows the branches of a tree to an engine; it returns more than there are
// for a damaged tree.
func convLeaf(tree string, figures *convFeatures, limits *[convFigures]string) int {
	for len(tree) >= 4 {
		figure, limit := int(tree[0]&^(convLowLeaf|convHighLeaf)), 4*int(tree[1])
		if figure >= convFigures || limit+4 > len(limits[figure]) {
			break
		}
		low := figures[figure] <= math.Float32frombits(uint32(little32(limits[figure], limit)))
		switch tree[0] & (convLowLeaf | convHighLeaf) {
		case convLowLeaf | convHighLeaf:
			if low {
				return int(tree[2])
			}
			return int(tree[3])
		case convLowLeaf:
			if low {
				return int(tree[2])
			}
			tree = tree[3:]
		case convHighLeaf:
			if !low {
				return int(tree[2])
			}
			tree = tree[3:]
		default:
			skip := 4
			if !low {
				skip += little16(tree, 2)
			}
			if skip > len(tree) {
				return maxConvEngines
			}
			tree = tree[skip:]
		}
	}
	return maxConvEngines
}
