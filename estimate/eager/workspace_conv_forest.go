package eager

import (
	_ "embed"
	"encoding/binary"
	"math"
	"slices"
	"sync"
)

// A convForest chooses engines: each of its trees names one, and the most named is
// taken. There is one for each pass, element size and memory format.
type convForest struct {
	engines []convEngine
	trees   [][]convNode

	file []byte // what engines and trees are still to be read from
	read sync.Once
}

// A convNode is a node of a tree, in preorder: the branch for figures up to limit
// follows, the other is at above. A leaf has no branches, and above is its engine.
type convNode struct {
	limit  float32
	above  uint16
	figure uint8 // which of the features, or convLeaf
}

const (
	convLeaf       = 0x80 // a leaf's first byte in the file: this and its engine
	maxConvEngines = 64   // of one forest
	maxConvTrees   = 64   // of one forest
	convPasses     = 3
)

// votes returns the engine that each tree names, and how many trees name each engine.
func (f *convForest) votes(figures *convFeatures) (leaves [maxConvTrees]uint8, n [maxConvEngines]uint8) {
	for t, tree := range f.trees {
		i := uint16(0)
		for tree[i].figure != convLeaf {
			if figures[tree[i].figure] <= tree[i].limit {
				i++
			} else {
				i = tree[i].above
			}
		}
		leaves[t] = uint8(tree[i].above)
		n[tree[i].above]++
	}
	return leaves, n
}

// most returns the engine that most trees name, of several the one listed first,
// which is the more frequent.
func (f *convForest) most(votes *[maxConvEngines]uint8) convEngine {
	best := 0
	for e := range f.engines {
		if votes[e] > votes[best] {
			best = e
		}
	}
	return f.engines[best]
}

// convTable holds the forests of each element size, memory format and pass.
type convTable [2][2][convPasses]convForest

func (t *convTable) of(w *convWork) *convForest {
	half, last := 0, 0
	if w.elem == 2 {
		half = 1
	}
	if w.last {
		last = 1
	}
	f := &t[half][last][w.pass]
	f.open()
	return f
}

// open reads a forest the first time that it is asked for: a run asks for three of the twelve.
func (f *convForest) open() {
	f.read.Do(func() {
		if f.file == nil {
			return
		}
		if !f.decode(f.file) {
			f.engines, f.trees = nil, nil
		}
		f.file = nil
	})
}

//go:embed workspace_conv_forest.bin
var convForestFile []byte

// convForests are the embedded forests. They are generated, by
//
//	go test ./estimate/eager -run TestConvForests -conv.write
//
// from testdata/convolutions.json.gz; the test of that name checks that they are current.
// They are not compressed: that would save 80 KB and cost each start 3 ms.
var convForests = sync.OnceValue(func() *convTable {
	t := &convTable{}
	if !t.split(convForestFile) {
		return &convTable{}
	}
	return t
})

// encode writes the forests: for each the number of bytes that follow, the engines (copies, extra, count), the limits of
// each figure in ascending order, and the trees, a node a leaf's byte or a figure and the
// index of its limit. Numbers are bytes, or 2 bytes (counts of engines) and 4 (lengths and limits),
// little-endian.
func (t *convTable) encode() []byte {
	var b []byte
	for half := range t {
		for last := range t[half] {
			for pass := range t[half][last] {
				f := &t[half][last][pass]
				f.open()
				at := len(b)
				b = f.encode(append(b, 0, 0, 0, 0))
				binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
			}
		}
	}
	return b
}

func (f *convForest) encode(b []byte) []byte {
	b = append(b, byte(len(f.engines)))
	for _, e := range f.engines {
		b = append(b, byte(e.copies), byte(e.extra))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.count))
	}
	limits := f.limits()
	index := make([]map[float32]byte, len(limits))
	for i, list := range limits {
		index[i] = map[float32]byte{}
		b = append(b, byte(len(list)))
		for j, limit := range list {
			index[i][limit] = byte(j)
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(limit))
		}
	}
	b = append(b, byte(len(f.trees)))
	for _, tree := range f.trees {
		for _, n := range tree {
			if n.figure == convLeaf {
				b = append(b, convLeaf|byte(n.above))
			} else {
				b = append(b, n.figure, index[n.figure][n.limit])
			}
		}
	}
	return b
}

// limits returns the limits of each figure that the trees ask for, ascending.
func (f *convForest) limits() (limits [len(convFeatures{})][]float32) {
	for _, tree := range f.trees {
		for _, n := range tree {
			if n.figure != convLeaf {
				limits[n.figure] = append(limits[n.figure], n.limit)
			}
		}
	}
	for i := range limits {
		slices.Sort(limits[i])
		limits[i] = slices.Compact(limits[i])
	}
	return limits
}

// split gives each forest its part of what encode wrote, to be read when it is asked for, and says whether that was all of it.
func (t *convTable) split(b []byte) bool {
	for half := range t {
		for last := range t[half] {
			for pass := range t[half][last] {
				if len(b) < 4 {
					return false
				}
				n := int64(binary.LittleEndian.Uint32(b))
				if b = b[4:]; int64(len(b)) < n {
					return false
				}
				t[half][last][pass].file = b[:n:n]
				b = b[n:]
			}
		}
	}
	return len(b) == 0
}

// decode reads what encode wrote and says whether that was all of it.
func (f *convForest) decode(b []byte) bool {
	short := false
	next := func(n int) []byte {
		if len(b) < n {
			b, short = nil, true
			return make([]byte, n)
		}
		v := b[:n]
		b = b[n:]
		return v
	}
	for range next(1)[0] {
		v := next(4)
		f.engines = append(f.engines, convEngine{convCopies(v[0]), convExtra(v[1]), int64(binary.LittleEndian.Uint16(v[2:]))})
	}
	var limits [len(convFeatures{})][]float32
	for i := range limits {
		for range next(1)[0] {
			limits[i] = append(limits[i], math.Float32frombits(binary.LittleEndian.Uint32(next(4))))
		}
	}
	var open []int      // branches whose other side is still to come
	var tree []convNode // the trees lie one behind the other in one array
	for range next(1)[0] {
		tree = tree[len(tree):]
		for {
			if len(b) < 2 && (len(b) == 0 || b[0] < convLeaf) || len(tree) > math.MaxUint16 {
				return false
			}
			if cap(tree) == len(tree) {
				tree = append(make([]convNode, 0, max(1<<14, 2*len(tree))), tree...)
			}
			at := b[0]
			b = b[1:]
			if at < convLeaf {
				i := int(b[0])
				b = b[1:]
				if int(at) >= len(limits) || i >= len(limits[at]) {
					return false
				}
				open = append(open, len(tree))
				tree = append(tree, convNode{limit: limits[at][i], figure: at})
				continue
			}
			if int(at-convLeaf) >= len(f.engines) {
				return false
			}
			tree = append(tree, convNode{figure: convLeaf, above: uint16(at - convLeaf)})
			if len(open) == 0 {
				break
			}
			tree[open[len(open)-1]].above = uint16(len(tree))
			open = open[:len(open)-1]
		}
		f.trees = append(f.trees, tree[:len(tree):len(tree)])
	}
	return !short && len(b) == 0 && len(f.engines) <= maxConvEngines && len(f.trees) <= maxConvTrees && (len(f.trees) > 0 || len(f.engines) == 0)
}
