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
type set [][]entry

// lowerBound returns the place of the first entry that does not come before e.
func (s set) lowerBound(e entry) (chunk, i int) {
	lo, n := 0, len(s)
	for n > 0 {
		half := (n + 1) / 2
		c := s[lo+half-1]
		lo += half & -int(c[len(c)-1].before(&e))
		n -= half
	}
	if lo == len(s) {
		return lo, 0
	}
	c := s[lo]
	n = len(c)
	for n > 0 {
		half := (n + 1) / 2
		i += half & -int(c[i+half-1].before(&e))
		n -= half
	}
	return lo, i
}

// from returns the place of the first entry of a stream that has at least size.
func (s set) from(stream int32, size int64) (chunk, i int) {
	return s.lowerBound(entry{stream: stream, id: -1, size: size, addr: math.MinInt64})
}

// ascend calls yield with the entries of a stream that have at least size, until it returns false, and returns whether
// it did not.
func (s set) ascend(stream int32, size int64, yield func(entry) bool) bool {
	chunk, i := s.from(stream, size)
	for ; chunk < len(s); chunk, i = chunk+1, 0 {
		for _, e := range s[chunk][i:] {
			if e.stream != stream || !yield(e) {
				return false
			}
		}
	}
	return true
}

func (s *set) insert(e entry) {
	at, i := s.lowerBound(e)
	if at == len(*s) {
		if at == 0 {
			if cap(*s) == 0 {
				*s = set{make([]entry, 0, 8)}
			}
			*s = (*s)[:1] // which has the room of the last that was let go
			(*s)[0] = append((*s)[0][:0], e)
			return
		}
		at--
		i = len((*s)[at])
	}
	c := (*s)[at]
	if len(c) < chunkSize {
		(*s)[at] = slices.Insert(c, i, e)
		return
	}
	upper := append(make([]entry, 0, chunkSize), c[chunkSize/2:]...)
	lower := c[:chunkSize/2]
	if i <= len(lower) {
		lower = slices.Insert(lower, i, e)
	} else {
		upper = slices.Insert(upper, i-len(lower), e)
	}
	(*s)[at] = lower
	*s = slices.Insert(*s, at+1, upper)
}

// remove takes an entry out; it says whether it was there.
func (s *set) remove(e entry) bool {
	at, i := s.lowerBound(e)
	if at == len(*s) || (*s)[at][i] != e {
		return false
	}
	c := slices.Delete((*s)[at], i, i+1)
	switch {
	case len(c) > 0:
		(*s)[at] = c
	case len(*s) == 1: // a set that one block comes to and leaves needs no new chunk each time
		*s = (*s)[:0]
	default:
		*s = slices.Delete(*s, at, at+1)
	}
	return true
}
