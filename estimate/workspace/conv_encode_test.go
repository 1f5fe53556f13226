package workspace

import (
	"encoding/binary"
	"math"
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
}

// encodeConvForests writes the file.
func encodeConvForests(hash uint32, limits *[convFigures][]float32, forests *[convKinds]grownForest) []byte {
	b := binary.LittleEndian.AppendUint32(nil, hash)
	b = append(b, make([]byte, 4*convKinds)...)
	n := 0
	for _, list := range limits {
		b = binary.LittleEndian.AppendUint16(b, uint16(n))
		n += len(list)
	}
	b = binary.LittleEndian.AppendUint16(b, uint16(n))
	for _, list := range limits {
		for _, v := range list {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	for kind := range forests {
		f := &forests[kind]
		start := len(b)
		binary.LittleEndian.PutUint32(b[convForestsAt+4*kind:], uint32(start))
		b = append(b, byte(len(f.engines)))
		for _, e := range f.engines {
			b = append(b, byte(e.copies), byte(e.extra))
			b = binary.LittleEndian.AppendUint16(b, uint16(e.count))
		}
		b = append(b, byte(len(f.trees)))
		starts := len(b)
		b = append(b, make([]byte, 4*len(f.trees))...)
		for i, tree := range f.trees {
			binary.LittleEndian.PutUint32(b[starts+4*i:], uint32(len(b)-start))
			b = encodeConvTree(b, tree, 0)
		}
	}
	return b
}

// encodeConvTree writes the branch at a node and what follows from it. A tree that is an
// engine alone becomes a branch with that on both sides.
func encodeConvTree(b []byte, tree []convBranch, at int) []byte {
	n := tree[at]
	if n.leaf {
		return append(b, convLowLeaf|convHighLeaf, 0, n.engine, n.engine)
	}
	low, high := tree[at+1], tree[n.above]
	switch {
	case low.leaf && high.leaf:
		return append(b, n.figure|convLowLeaf|convHighLeaf, n.limit, low.engine, high.engine)
	case low.leaf:
		return encodeConvTree(append(b, n.figure|convLowLeaf, n.limit, low.engine), tree, n.above)
	case high.leaf:
		return encodeConvTree(append(b, n.figure|convHighLeaf, n.limit, high.engine), tree, at+1)
	}
	b = append(b, n.figure, n.limit, 0, 0)
	start := len(b)
	b = encodeConvTree(b, tree, at+1)
	binary.LittleEndian.PutUint16(b[start-2:], uint16(len(b)-start))
	return encodeConvTree(b, tree, n.above)
}
