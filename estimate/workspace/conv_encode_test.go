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
	known   []knownConv
}

// A knownConv is a measured convolution that the trees get wrong.
type knownConv struct {
	hash   string
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
	shape := make([]byte, (nodes+7)/8)
	var figures, limits, engines []byte
	at := 0
	for _, tree := range f.trees {
		for _, n := range tree {
			if n.leaf {
				shape[at/8] |= 0x80 >> (at % 8)
				engines = append(engines, n.engine)
			} else {
				figures, limits = append(figures, n.figure), append(limits, n.limit)
			}
			at++
		}
	}
	for _, part := range [][]byte{shape, figures, limits, engines} {
		b = append(b, part...)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(f.known)))
	for _, k := range f.known {
		b = append(b, k.hash...)
	}
	for _, k := range f.known {
		b = append(b, k.engine)
	}
	return b
}
