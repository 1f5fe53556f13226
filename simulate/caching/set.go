package caching

import (
	"math"
	"math/bits"
	"slices"
)

// An entry is a free block as its pool orders it: by stream, size, address.
type entry struct {
	stream int32
	id     int32 // the block; breaks ties between addresses that a caller gave twice
	size   int64
	addr   int64
}

// before returns 1 when a comes before b, else 0. It subtracts one key from the other, the borrow of each part
// going to the next, because a search among free blocks is a series of branches that nothing could predict.
func (a *entry) before(b *entry) uint64 {
	const sign = 1 << 63
	_, borrow := bits.Sub64(uint64(a.id)^sign, uint64(b.id)^sign, 0)
	_, borrow = bits.Sub64(uint64(a.addr)^sign, uint64(b.addr)^sign, borrow)
	_, borrow = bits.Sub64(uint64(a.size), uint64(b.size), borrow)
	_, borrow = bits.Sub64(uint64(a.stream)^sign, uint64(b.stream)^sign, borrow)
	return borrow
}

// chunkSize bounds what one insertion moves. A training step keeps some hundred
// free blocks, which is a few chunks; a hostile timeline may keep a million.
const chunkSize = 128

// A set is an ordered set of entries: sorted chunks in order. It beats a tree
// here because it allocates next to nothing and its searches stay in cache.
type set struct {
	chunks [][]entry
	n      int
}

// A pos is a place in a set. It is valid until the set changes.
type pos struct{ chunk, i int }

// reset takes all entries out, and keeps the memory of a chunk for others.
func (s *set) reset() { s.chunks, s.n = s.chunks[:0], 0 }

func (s *set) lowerBound(e entry) pos {
	lo, n := 0, len(s.chunks)
	for n > 0 {
		half := (n + 1) / 2
		c := s.chunks[lo+half-1]
		lo += half & -int(c[len(c)-1].before(&e))
		n -= half
	}
	if lo == len(s.chunks) {
		return pos{lo, 0}
	}
	c := s.chunks[lo]
	i := 0
	n = len(c)
	for n > 0 {
		half := (n + 1) / 2
		i += half & -int(c[i+half-1].before(&e))
		n -= half
	}
	return pos{lo, i}
}

// first returns the place of the first entry of a stream that has at least size.
func (s *set) first(stream int32, size int64) pos {
	return s.lowerBound(entry{stream: stream, id: -1, size: size, addr: math.MinInt64})
}

func (s *set) at(p pos) (entry, bool) {
	if p.chunk >= len(s.chunks) {
		return entry{}, false
	}
	return s.chunks[p.chunk][p.i], true
}

func (s *set) next(p pos) pos {
	p.i++
	if p.i >= len(s.chunks[p.chunk]) {
		return pos{p.chunk + 1, 0}
	}
	return p
}

func (s *set) prev(p pos) (pos, bool) {
	if p.i > 0 {
		return pos{p.chunk, p.i - 1}, true
	}
	if p.chunk == 0 {
		return p, false
	}
	return pos{p.chunk - 1, len(s.chunks[p.chunk-1]) - 1}, true
}

func (s *set) insert(e entry) {
	s.n++
	p := s.lowerBound(e)
	if p.chunk == len(s.chunks) {
		if p.chunk == 0 {
			if cap(s.chunks) == 0 {
				s.chunks = [][]entry{make([]entry, 0, 8)}
			}
			s.chunks = s.chunks[:1] // which has the room of the last that was let go
			s.chunks[0] = append(s.chunks[0][:0], e)
			return
		}
		p.chunk--
		p.i = len(s.chunks[p.chunk])
	}
	c := s.chunks[p.chunk]
	if len(c) < chunkSize {
		s.chunks[p.chunk] = slices.Insert(c, p.i, e)
		return
	}
	upper := append(make([]entry, 0, chunkSize), c[chunkSize/2:]...)
	lower := c[:chunkSize/2]
	if p.i <= len(lower) {
		lower = slices.Insert(lower, p.i, e)
	} else {
		upper = slices.Insert(upper, p.i-len(lower), e)
	}
	s.chunks[p.chunk] = lower
	s.chunks = slices.Insert(s.chunks, p.chunk+1, upper)
}

// remove takes an entry out; it says whether it was there.
func (s *set) remove(e entry) bool {
	p := s.lowerBound(e)
	got, ok := s.at(p)
	if !ok || got != e {
		return false
	}
	s.removeAt(p)
	return true
}

// removeAt takes the entry at a place out.
func (s *set) removeAt(p pos) {
	s.n--
	c := slices.Delete(s.chunks[p.chunk], p.i, p.i+1)
	switch {
	case len(c) > 0:
		s.chunks[p.chunk] = c
	case len(s.chunks) == 1: // a set that one block comes to and leaves needs no new chunk each time
		s.chunks = s.chunks[:0]
	default:
		s.chunks = slices.Delete(s.chunks, p.chunk, p.chunk+1)
	}
}
