package workspace

import (
	_ "embed"
	"encoding/binary"
	"hash/fnv"
	"math"
	"sort"
	"strings"
	"sync"
)

// A convForest chooses engines: each of its trees names one. The last trees doubt: each has
// not seen a quarter of the convolutions, so that they disagree about what is unlike all
// others. There is one forest for each pass, element size and memory format.
type convForest struct {
	engines []convEngine // in the order in which they were picked
	limits  *convLimits
	nodes   []convNode // of all trees, each in preorder
	roots   []int      // where they begin
	known   string     // see listed
}

// convLimits are what the figures are compared with, ascending for each.
type convLimits [convFigures][]float32

// A convNode is an engine, or a branch: what is up to the figure's limit goes on at the next node, the
// rest so many nodes ahead.
//
//	engine  bit 31 set, the engine in the lowest 8
//	branch  figure in bits 25 to 30, limit in 19 to 24, the distance in the lowest 19
type convNode uint32

const (
	convPasses     = 3
	convKinds      = 2 * 2 * convPasses
	convFigures    = len(convFeatures{})
	maxConvEngines = 255 // of one forest
	maxConvTrees   = 64
	maxConvLimits  = 63 // of one figure
	maxConvReach   = 1 << 19
	convDoubts     = 8 // the last trees have grown on three quarters of the convolutions each
	convIsEngine   = convNode(1) << 31
	convHashBytes  = 4
)

// convForestFile is generated, by
//
//	go test ./estimate/workspace -run TestConvForests -conv.write
//
// from testdata/convolutions.bin.gz; the test of that name checks that it is current. What is alike lies together, so
// that it packs well where the program is packed:
//
//	hash     4 bytes, of the measurements that it has grown from
//	forests  4 bytes each: where it starts
//	limits   for each figure their number, and 4 bytes each (float32)
//
// and for each forest
//
//	engines  their number, 4 bytes for each (copies, extra, 2 of count)
//	trees    their number
//	nodes    4 bytes: their number, of all trees
//	         a bit each, the highest of a byte first: whether it is an engine
//	         for each branch the figure, for each branch the limit, for each engine which
//	known    4 bytes: their number; 4 bytes of a hash for each, ascending; for each which engine
//
// in little-endian order.
//
//go:embed conv_forest.bin
var convForestFile string

// convForests reads each forest when the first convolution asks it: a millisecond, which a start that
// meets none is spared.
var convForests = func() (all [convKinds]func() convForest) {
	for kind := range all {
		all[kind] = sync.OnceValue(func() convForest { return readConvForest(convForestFile, kind) })
	}
	return all
}()

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

// A convReader takes a file apart; what lies beyond its end is empty, and short is set.
type convReader struct {
	rest  string
	short bool
}

func (r *convReader) take(n int) string {
	if n < 0 || n > len(r.rest) {
		r.short, r.rest = true, ""
		return ""
	}
	part := r.rest[:n]
	r.rest = r.rest[n:]
	return part
}

func (r *convReader) number(bytes int) (n int) {
	for i, part := 0, r.take(bytes); i < len(part); i++ {
		n |= int(part[i]) << (8 * i)
	}
	return n
}

// readConvForest returns the forest of a kind; it has no engines if the file is damaged.
func readConvForest(file string, kind int) (f convForest) {
	r := convReader{rest: file}
	r.take(4 + 4*kind)
	start := r.number(4)
	r.take(4 * (convKinds - 1 - kind))
	f.limits = &convLimits{}
	for figure := range f.limits {
		for range r.number(1) {
			f.limits[figure] = append(f.limits[figure], math.Float32frombits(uint32(r.number(4))))
		}
	}
	r = convReader{rest: file, short: r.short}
	r.take(start)
	for range r.number(1) {
		f.engines = append(f.engines, convEngine{convCopies(r.number(1)), convExtra(r.number(1)), int64(r.number(2))})
	}
	trees, nodes := r.number(1), r.number(4)
	if trees <= convDoubts || trees > maxConvTrees || nodes <= trees || nodes >= maxConvReach {
		return convForest{}
	}
	branches := (nodes - trees) / 2
	shape, figures, limits, engines := r.take((nodes+7)/8), r.take(branches), r.take(branches), r.take(nodes-branches)
	if n := r.number(4); n <= len(r.rest) {
		f.known = r.take((convHashBytes + 1) * n)
	}
	if r.short || !f.build(trees, shape, figures, limits, engines) {
		return convForest{}
	}
	return f
}

// build puts the trees together, and says whether they are whole. Which node is an engine no processor foresees, so
// that both are made of each and nothing but the end of a tree is asked for.
func (f *convForest) build(trees int, shape, figures, limits, engines string) bool {
	var given [256]int // limits of each figure that there is
	for figure, list := range f.limits {
		given[figure] = len(list)
	}
	for i := range len(figures) {
		if int(limits[i]) >= given[figures[i]] {
			return false
		}
	}
	for i := range len(engines) {
		if int(engines[i]) >= len(f.engines) {
			return false
		}
	}
	f.nodes, f.roots = make([]convNode, len(figures)+len(engines)), make([]int, 1, trees)
	var open [256]int // above 0: the branches whose upper side has not begun
	depth, branch, engine, last := uint8(0), 0, 0, len(figures)-1
	for at := range f.nodes {
		is := int(shape[at/8]>>(7-at%8)) & 1
		if engine == len(engines) || last < 0 {
			return false
		}
		n := convNode(figures[min(branch, last)])<<25 | convNode(limits[min(branch, last)])<<19
		f.nodes[at] = n ^ (n^(convIsEngine|convNode(engines[engine])))&convNode(-is)
		branch, engine = branch+1-is, engine+is
		if is > int(depth) { // an engine, and no branch is open: the tree is whole
			f.roots = append(f.roots, at+1)
			continue
		}
		f.nodes[open[depth]] += convNode((at + 1 - open[depth]) & -is)
		open[depth+1] = at
		depth += uint8(1 - 2*is)
	}
	f.roots = f.roots[:len(f.roots)-1]
	return depth == 0 && branch == len(figures) && len(f.roots) == trees
}

// listed returns the engine of a convolution that was measured and that the trees get wrong: they are small
// because they keep the rule and not every exception to it.
func (f *convForest) listed(s *ConvShape, pass ConvPass) (e convEngine, ok bool) {
	n := len(f.known) / (convHashBytes + 1)
	hash := convHash(s, pass)
	i, ok := sort.Find(n, func(i int) int {
		return strings.Compare(hash, f.known[convHashBytes*i:convHashBytes*(i+1)])
	})
	if !ok || int(f.known[convHashBytes*n+i]) >= len(f.engines) {
		return e, false
	}
	return f.engines[f.known[convHashBytes*n+i]], true
}

// convHash tells the convolutions of a forest apart: one in a million that was not measured is taken for one that was.
func convHash(s *ConvShape, pass ConvPass) string {
	var room [128]byte
	h := fnv.New64a()
	h.Write(s.AppendKey(room[:0], pass))
	sum := h.Sum64()
	return string(binary.BigEndian.AppendUint32(room[:0], uint32(sum>>32)^uint32(sum)))
}

// leaves asks every tree, and returns the engine that each names: first those that choose, then
// the convDoubts that doubt. A damaged forest has none.
func (f *convForest) leaves(figures *convFeatures) (leaves [maxConvTrees]uint8, choose int) {
	for t, at := range f.roots {
		n := f.nodes[at]
		for n&convIsEngine == 0 {
			figure := n >> 25
			if figures[figure] <= f.limits[figure][n>>19&maxConvLimits] {
				at++
			} else {
				at += int(n & (maxConvReach - 1))
			}
			n = f.nodes[at]
		}
		leaves[t] = uint8(n)
	}
	return leaves, max(len(f.roots)-convDoubts, 0)
}
