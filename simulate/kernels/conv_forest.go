package kernels

import (
	_ "embed"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/bits"
	"slices"
	"sync"
)

// A convForest chooses engines: each of its trees names one. The last trees doubt: each has
// not seen a quarter of the convolutions, so that they disagree about what is unlike all
// others. There is one forest for each pass, element size and memory format.
//
// The nodes of all trees stand by their depth: the roots, their children, the children of these. Those of branch n are
// at trees+2n and the place after, so that no node says where they are, and a tree is asked in the file as it lies.
type convForest struct {
	engines       []convEngine         // in the order in which they were picked
	limits        *[convFigures]string // what the figures are compared with, ascending for each, 4 bytes each
	trees         int
	isEngine      []uint64 // a bit each node, the highest first: else it is a branch
	enginesBefore []int32  // nodes that are engines, before each of these
	figures       string   // of each branch: which figure is asked for
	above         string   // and the limit above which the second child is next
	names         string   // of each node that is an engine: which
	known         []uint32 // hashes of convolutions, ascending: see listed
	knownNames    string   // and which engine each has
}

const (
	convPasses   = 3
	convKinds    = 2 * 2 * convPasses
	convFigures  = len(convFeatures{})
	maxConvTrees = 128
	maxConvNodes = 1 << 24
	convDoubts   = 8 // the last trees have grown on three quarters of the convolutions each
	convHashBits = 28
)

// convForestFile is generated, by
//
//	go test ./simulate/kernels -run TestConvForests -conv.write
//
// from testdata/convolutions.bin.gz; the test of that name checks that it is current. What is alike lies together, so
// that it packs well where the program is packed, as far as a forest can be asked where it lies:
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
//	         a bit each, the highest of a byte first, in multiples of 8 bytes: whether it is an engine
//	         for each branch the figure; for each branch the limit; for each engine which
//	known    4 bytes: their number; for each which engine; of each hash, ascending, how much it is above the one before:
//	         in bits, the lowest of a byte first, so many ones as it has hashBits(number), a zero, and these bits
//
// in little-endian order.
//
//go:embed conv_forest.bin
var convForestFile string

// convForests looks at each forest when the first convolution asks it, which a start that meets none is spared.
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

// hashBits is how many bits of each difference between n ascending hashes are written as they are (Rice's code).
func hashBits(n int) int { return max(bits.Len(uint(1<<convHashBits/max(n, 1)))-1, 0) }

// hashes reads n ascending hashes.
func (r *convReader) hashes(n int) (hashes []uint32) {
	at, low := 0, hashBits(n)
	next := func() uint32 {
		if at/8 >= len(r.rest) {
			r.short = true
			return 0
		}
		bit := r.rest[at/8] >> (at % 8) & 1
		at++
		return uint32(bit)
	}
	hash := uint32(0)
	for range n {
		for next() == 1 {
			hash += 1 << low
		}
		for i := range low {
			hash += next() << i
		}
		if r.short {
			return nil
		}
		hashes = append(hashes, hash)
	}
	return hashes
}

// readConvLimits reads what figures are compared with.
func readConvLimits(r *convReader) *[convFigures]string {
	limits := &[convFigures]string{}
	for figure := range limits {
		limits[figure] = r.take(4 * r.number(1))
	}
	return limits
}

// floatOf reads 4 bytes.
func floatOf(l string) float32 {
	return math.Float32frombits(uint32(l[0]) | uint32(l[1])<<8 | uint32(l[2])<<16 | uint32(l[3])<<24)
}

// readConvForest returns the forest of a kind; it has no engines if the file is damaged.
func readConvForest(file string, kind int) (f convForest) {
	r := convReader{rest: file}
	r.take(4 + 4*kind)
	start := r.number(4)
	r.take(4 * (convKinds - 1 - kind))
	f.limits = readConvLimits(&r)
	r = convReader{rest: file, short: r.short}
	r.take(start)
	for range r.number(1) {
		f.engines = append(f.engines, convEngine{convCopies(r.number(1)), convExtra(r.number(1)), int64(r.number(2))})
	}
	f.trees = r.number(1)
	nodes := r.number(4)
	if f.trees <= convDoubts || f.trees > maxConvTrees || nodes <= f.trees || nodes >= maxConvNodes {
		return convForest{}
	}
	branches := (nodes - f.trees) / 2
	shape := r.take((nodes + 63) / 64 * 8)
	f.figures = r.take(branches)
	f.above = r.take(branches)
	f.names = r.take(nodes - branches)
	n := r.number(4)
	f.knownNames = r.take(n)
	f.known = r.hashes(len(f.knownNames))
	if r.short || f.number(shape) != nodes-branches {
		return convForest{}
	}
	return f
}

// number counts the nodes that are engines before every 64th, and returns how many there are.
func (f *convForest) number(shape string) (engines int) {
	f.isEngine, f.enginesBefore = make([]uint64, len(shape)/8), make([]int32, len(shape)/8)
	for i := range f.isEngine {
		f.isEngine[i] = binary.BigEndian.Uint64([]byte(shape[8*i : 8*i+8]))
		f.enginesBefore[i] = int32(engines)
		engines += bits.OnesCount64(f.isEngine[i])
	}
	return engines
}

// listed returns the engine of a convolution that was measured and that the trees get wrong: they are small
// because they keep the rule and not every exception to it.
func (f *convForest) listed(s *ConvShape, pass ConvPass) (e convEngine, ok bool) {
	i, ok := slices.BinarySearch(f.known, convHash(s, pass))
	if !ok || int(f.knownNames[i]) >= len(f.engines) {
		return e, false
	}
	return f.engines[f.knownNames[i]], true
}

// convHash tells the convolutions of a forest apart: at most one in 30,000 that was not measured is
// taken for one that was.
func convHash(s *ConvShape, pass ConvPass) uint32 {
	var room [128]byte
	h := fnv.New64a()
	h.Write(s.AppendKey(room[:0], pass))
	sum := h.Sum64()
	return (uint32(sum>>32) ^ uint32(sum)) >> (32 - convHashBits)
}

// node tells whether a node is an engine, and how many of its kind are before it.
func (f *convForest) node(at int) (engine bool, before int) {
	word, bit := f.isEngine[at/64], at%64
	before = int(f.enginesBefore[at/64]) + bits.OnesCount64(word>>(64-bit))
	if engine = word<<bit>>63 != 0; !engine {
		before = at - before
	}
	return engine, before
}

// leaves asks every tree, and returns the engine that each names: first those that choose, then
// the convDoubts that doubt. A damaged forest has none. The trees are asked a level at a time, because the nodes of a
// level lie together and need not wait for each other.
func (f *convForest) leaves(figures *convFeatures) (leaves [maxConvTrees]uint8, choose int) {
	var at, open [maxConvTrees]int32 // the node that each tree is at, and the trees that are at a branch
	for tree := range f.trees {
		at[tree], open[tree] = int32(tree), int32(tree)
	}
	for n := f.trees; n > 0; {
		still := 0
		for _, tree := range open[:n] {
			engine, i := f.node(int(at[tree]))
			if engine {
				if leaves[tree] = f.names[i]; f.engines != nil && int(leaves[tree]) >= len(f.engines) {
					return leaves, 0
				}
				continue
			}
			next, figure, limit := f.trees+2*i, int(f.figures[i]), 4*int(f.above[i])
			if next <= int(at[tree]) || figure >= len(figures) || limit >= len(f.limits[figure]) {
				return leaves, 0
			}
			second := 0
			if figures[figure] > floatOf(f.limits[figure][limit:limit+4]) {
				second = 1
			}
			at[tree] = int32(next + second)
			open[still] = tree
			still++
		}
		n = still
	}
	return leaves, max(f.trees-convDoubts, 0)
}
