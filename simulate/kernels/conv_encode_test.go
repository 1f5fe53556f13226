package kernels

import (
	"encoding/binary"
	"math"
	"slices"
)

// This file writes the forests that conv_forest.go reads.

// A convBranch is a node of a tree in preorder: the side up to the limit follows, the
// other is at above. An engine has no limit.
type convBranch struct {
	above  int
	figure uint8
	limit  uint8 // the index of the figure's limit
	leaf   bool
	engine uint8
}

// A grownForest is a forest before it is written.
type grownForest struct {
	engines []convEngine
	trees   [][]convBranch
	known   []knownConv
}

// A knownConv is a measured convolution that the trees get wrong.
type knownConv struct {
	hash   uint32
	engine uint8
}

// encodeConvForests writes the file.
func encodeConvForests(hash uint32, limits *convLimits, forests *[convKinds]grownForest) []byte {
	b := binary.LittleEndian.AppendUint32(nil, hash)
	starts := len(b)
	b = append(b, make([]byte, 4*convKinds)...)
	for _, list := range limits {
		b = append(b, byte(len(list)))
		for _, v := range list {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	for kind := range forests {
		binary.LittleEndian.PutUint32(b[starts+4*kind:], uint32(len(b)))
		b = forests[kind].append(b)
	}
	return b
}

// append writes one forest.
func (f *grownForest) append(b []byte) []byte {
	b = append(b, byte(len(f.engines)))
	for _, e := range f.engines {
		b = append(b, byte(e.copies), byte(e.extra))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.count))
	}
	nodes := 0
	for _, tree := range f.trees {
		nodes += len(tree)
	}
	b = append(b, byte(len(f.trees)))
	b = binary.LittleEndian.AppendUint32(b, uint32(nodes))
	shape := make([]byte, (nodes+63)/64*8)
	var figures, limits, engines []byte
	for at, n := range f.byDepth(nodes) {
		if n.leaf {
			shape[at/8] |= 0x80 >> (at % 8)
			engines = append(engines, n.engine)
		} else {
			figures, limits = append(figures, n.figure), append(limits, n.limit)
		}
	}
	for _, part := range [][]byte{shape, figures, limits, engines} {
		b = append(b, part...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.known)))
	for _, k := range f.known {
		b = append(b, k.engine)
	}
	return append(b, f.hashes()...)
}

// hashes writes what convReader.hashes reads.
func (f *grownForest) hashes() (b []byte) {
	at, low, before := 0, hashBits(len(f.known)), uint32(0)
	put := func(bit uint32) {
		if at%8 == 0 {
			b = append(b, 0)
		}
		b[at/8] |= byte(bit << (at % 8))
		at++
	}
	for _, k := range f.known {
		for range (k.hash - before) >> low {
			put(1)
		}
		put(0)
		for i := range low {
			put((k.hash - before) >> i & 1)
		}
		before = k.hash
	}
	return b
}

// byDepth lists the nodes of all trees: the roots, then of each branch listed its two children.
func (f *grownForest) byDepth(nodes int) []convBranch {
	type place struct{ tree, at int }
	list, places := make([]convBranch, 0, nodes), make([]place, 0, nodes)
	for tree := range f.trees {
		places = append(places, place{tree, 0})
	}
	for i := 0; i < len(places); i++ {
		p := places[i]
		n := f.trees[p.tree][p.at]
		list = append(list, n)
		if !n.leaf {
			places = append(places, place{p.tree, p.at + 1}, place{p.tree, n.above})
		}
	}
	return list
}

// branches reads a tree back, in preorder.
func (f *convForest) branches(at int) (tree []convBranch) {
	engine, i := f.node(at)
	if engine {
		return []convBranch{{leaf: true, engine: f.names[i]}}
	}
	low, high := f.branches(f.trees+2*i), f.branches(f.trees+2*i+1)
	n := convBranch{figure: f.figures[i], limit: f.above[i], above: 1 + len(low)}
	return slices.Concat([]convBranch{n}, low, high)
}
