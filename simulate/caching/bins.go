package caching

import (
	"math"
	"math/bits"
	"slices"
)

// freeBlocks are the free blocks of a pool by stream, size, address, as a set orders them. The blocks of a stream lie
// in bins of nearly equal sizes, so a search looks at a few of them where a pool has thousands.
type freeBlocks []streamBlocks

type streamBlocks struct {
	stream int32
	some   [numBins / 64]uint64 // by bin: whether it holds a block
	bins   [numBins]set
	rooms  []room // for bins that had no block yet
}

// A room is where a set keeps its first few blocks.
type room struct {
	chunks [1][]entry
	blocks [4]entry
}

// There are 16 bins for each power of two. They are enough for blocks below 2^52 bytes; any larger are in the last.
const (
	binBits = 4
	numBins = 640
)

// binOf returns the bin of a size, which does not fall as sizes rise.
func binOf(size int64) int {
	n := uint64(size) / minBlock
	shift := max(bits.Len64(n)-binBits-1, 0)
	return min(shift<<binBits+int(n>>shift), numBins-1)
}

// reset takes all blocks out, and keeps the bins' memory for others.
func (f freeBlocks) reset() {
	for i := range f {
		s := &f[i]
		for bin := s.from(0); bin < numBins; bin = s.from(bin + 1) {
			s.bins[bin] = s.bins[bin][:0]
		}
		s.some = [len(s.some)]uint64{}
	}
}

// from returns the first bin from there on that holds a block, numBins where none does.
func (s *streamBlocks) from(bin int) int {
	for k := bin / 64; k < len(s.some); k++ {
		word := s.some[k]
		if k == bin/64 {
			word &= math.MaxUint64 << (bin % 64)
		}
		if word != 0 {
			return k*64 + bits.TrailingZeros64(word)
		}
	}
	return numBins
}

// ascend calls yield with the blocks of a stream that have at least size, until it returns false.
func (f freeBlocks) ascend(stream int32, size int64, yield func(entry) bool) {
	i, found := f.find(stream)
	if !found {
		return
	}
	s := &f[i]
	for bin := s.from(binOf(size)); bin < numBins; bin = s.from(bin + 1) {
		if !s.bins[bin].ascend(stream, size, yield) {
			return
		}
	}
}

// first returns the first block of a stream that has at least size.
func (f freeBlocks) first(stream int32, size int64) (e entry, ok bool) {
	i, found := f.find(stream)
	if !found {
		return e, false
	}
	s, bin := &f[i], binOf(size)
	if set := s.bins[bin]; len(set) > 0 {
		if chunk, i := set.from(stream, size); chunk < len(set) {
			return set[chunk][i], true
		}
	}
	if bin = s.from(bin + 1); bin < numBins {
		return s.bins[bin][0][0], true
	}
	return e, false
}

// all ranges over the blocks in order.
func (f freeBlocks) all(yield func(entry) bool) {
	more := true
	for i := 0; i < len(f) && more; i++ {
		f.ascend(f[i].stream, 0, func(e entry) bool {
			more = yield(e)
			return more
		})
	}
}

func (f *freeBlocks) insert(e entry) {
	i, found := f.find(e.stream)
	if !found {
		*f = slices.Insert(*f, i, streamBlocks{stream: e.stream})
	}
	s, bin := &(*f)[i], binOf(e.size)
	if s.bins[bin] == nil {
		if len(s.rooms) == 0 {
			s.rooms = make([]room, 16)
		}
		r := &s.rooms[0]
		s.rooms = s.rooms[1:]
		r.chunks[0] = r.blocks[:0]
		s.bins[bin] = r.chunks[:0]
	}
	s.bins[bin].insert(e)
	s.some[bin/64] |= 1 << (bin % 64)
}

// remove takes a block out; it says whether it was there.
func (f freeBlocks) remove(e entry) bool {
	i, found := f.find(e.stream)
	if !found {
		return false
	}
	s, bin := &f[i], binOf(e.size)
	found = s.bins[bin].remove(e)
	if len(s.bins[bin]) == 0 {
		s.some[bin/64] &^= 1 << (bin % 64)
	}
	return found
}

// find returns where a stream is or belongs.
func (f freeBlocks) find(stream int32) (int, bool) {
	for i := range f {
		if s := f[i].stream; s >= stream {
			return i, s == stream
		}
	}
	return len(f), false
}
