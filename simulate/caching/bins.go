package caching

import (
	"math"
	"math/bits"
	"slices"
)

// freeBlocks are the free blocks of a pool by stream, size, address, as a set orders them. The blocks of a stream lie
// in bins of nearly equal sizes, so a search looks at a few of them where a pool has thousands.
type freeBlocks struct {
	n       int
	streams []streamBlocks
}

type streamBlocks struct {
	stream int32
	some   [numBins / 64]uint64 // by bin: whether it holds a block
	bins   [numBins]*set        // nil until they are needed
	unused []bin                // for these
}

// A bin is a set with room for a few blocks.
type bin struct {
	set
	chunk [1][]entry
	room  [4]entry
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
func (f *freeBlocks) reset() {
	for i := range f.streams {
		s := &f.streams[i]
		for _, set := range s.bins {
			if set != nil {
				set.reset()
			}
		}
		s.some = [len(s.some)]uint64{}
	}
	f.n = 0
}

// A place is where a free block is. It is valid until the blocks change.
type place struct {
	stream, bin int
	pos
}

func (f *freeBlocks) at(p place) (entry, bool) {
	if p.stream >= len(f.streams) {
		return entry{}, false
	}
	return f.streams[p.stream].bins[p.bin].at(p.pos)
}

// from returns the first place in a bin or a later one.
func (f *freeBlocks) from(stream, bin int) place {
	for ; stream < len(f.streams); stream, bin = stream+1, 0 {
		s := &f.streams[stream]
		for k := bin / 64; k < len(s.some); k++ {
			word := s.some[k]
			if k == bin/64 {
				word &= math.MaxUint64 << (bin % 64)
			}
			if word != 0 {
				return place{stream: stream, bin: k*64 + bits.TrailingZeros64(word)}
			}
		}
	}
	return place{stream: stream}
}

// first returns the place of the first block of a stream that has at least size.
func (f *freeBlocks) first(stream int32, size int64) place {
	i, found := f.find(stream)
	if !found {
		return f.from(i, 0)
	}
	bin := binOf(size)
	if s := &f.streams[i]; s.some[bin/64]>>(bin%64)&1 != 0 {
		set := s.bins[bin]
		if p := set.first(stream, size); p.chunk < len(set.chunks) {
			return place{i, bin, p}
		}
	}
	return f.from(i, bin+1)
}

func (f *freeBlocks) next(p place) place {
	s := f.streams[p.stream].bins[p.bin]
	if p.pos = s.next(p.pos); p.chunk < len(s.chunks) {
		return p
	}
	return f.from(p.stream, p.bin+1)
}

func (f *freeBlocks) prev(p place) (place, bool) {
	if p.stream < len(f.streams) {
		if at, ok := f.streams[p.stream].bins[p.bin].prev(p.pos); ok {
			return place{p.stream, p.bin, at}, true
		}
	} else {
		p.bin = 0
	}
	for stream, bin := p.stream, p.bin; stream >= 0; stream, bin = stream-1, numBins {
		if stream == len(f.streams) {
			continue
		}
		for bin--; bin >= 0; bin-- {
			if set := f.streams[stream].bins[bin]; set != nil && set.n > 0 {
				last := len(set.chunks) - 1
				return place{stream, bin, pos{last, len(set.chunks[last]) - 1}}, true
			}
		}
	}
	return p, false
}

func (f *freeBlocks) insert(e entry) {
	i, found := f.find(e.stream)
	if !found {
		f.streams = slices.Insert(f.streams, i, streamBlocks{stream: e.stream})
	}
	s, bin := &f.streams[i], binOf(e.size)
	if s.bins[bin] == nil {
		s.bins[bin] = s.newBin()
	}
	s.bins[bin].insert(e)
	s.some[bin/64] |= 1 << (bin % 64)
	f.n++
}

func (s *streamBlocks) newBin() *set {
	if len(s.unused) == 0 {
		s.unused = make([]bin, 16)
	}
	b := &s.unused[0]
	s.unused = s.unused[1:]
	b.chunk[0] = b.room[:0]
	b.chunks = b.chunk[:0]
	return &b.set
}

// remove takes a block out; it says whether it was there.
func (f *freeBlocks) remove(e entry) bool {
	i, found := f.find(e.stream)
	bin := binOf(e.size)
	if !found || f.streams[i].bins[bin] == nil {
		return false
	}
	s := f.streams[i].bins[bin]
	p := s.lowerBound(e)
	if got, ok := s.at(p); !ok || got != e {
		return false
	}
	f.removeAt(place{i, bin, p})
	return true
}

func (f *freeBlocks) removeAt(p place) {
	s := &f.streams[p.stream]
	s.bins[p.bin].removeAt(p.pos)
	if s.bins[p.bin].n == 0 {
		s.some[p.bin/64] &^= 1 << (p.bin % 64)
	}
	f.n--
}

// find returns where a stream is or belongs.
func (f *freeBlocks) find(stream int32) (int, bool) {
	for i := range f.streams {
		if s := f.streams[i].stream; s >= stream {
			return i, s == stream
		}
	}
	return len(f.streams), false
}
