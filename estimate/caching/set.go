package caching

import (
	"math"
	"slices"
)

// An entry is a free block as its pool orders it: by stream, size, address.
type entry struct {
	stream int32
	id     int32 // the block; breaks ties between addresses that a caller gave twice
	size   int64
	addr   int64
}

func (a entry) less(b entry) bool {
	switch {
	case a.stream != b.stream:
		return a.stream < b.stream
	case a.size != b.size:
		return a.size < b.size
	case a.addr != b.addr:
		return a.addr < b.addr
	}
	return a.id < b.id
}

// chunkSize bounds what one insertion moves. A training step keeps some hundred
// free blocks, which is one or two chunks; a hostile timeline may keep a million.
const chunkSize = 512

// A set is an ordered set of entries: sorted chunks in order. It beats a tree
// here because it allocates next to nothing and its searches stay in cache.
type set struct {
	chunks [][]entry
	n      int
	spare  []entry // an empty chunk that was let go, or nil
}

// A pos is a place in a set. It is valid until the set changes.
type pos struct{ chunk, i int }

func (s *set) lowerBound(e entry) pos {
	lo, hi := 0, len(s.chunks)
	for lo < hi {
		mid := int(uint(lo+hi) >> 1)
		c := s.chunks[mid]
		if c[len(c)-1].less(e) {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(s.chunks) {
		return pos{lo, 0}
	}
	c := s.chunks[lo]
	i, j := 0, len(c)
	for i < j {
		mid := int(uint(i+j) >> 1)
		if c[mid].less(e) {
			i = mid + 1
		} else {
			j = mid
		}
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
			if s.spare == nil {
				s.spare = make([]entry, 0, 64)
			}
			s.chunks = append(s.chunks, append(s.spare, e))
			s.spare = nil
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
	s.n--
	c := slices.Delete(s.chunks[p.chunk], p.i, p.i+1)
	if len(c) == 0 {
		s.chunks = slices.Delete(s.chunks, p.chunk, p.chunk+1)
		s.spare = c // a pool that one block comes to and leaves needs no new chunk each time
		return true
	}
	s.chunks[p.chunk] = c
	return true
}
