package snapshot

import (
	"math"
	"slices"
)

// address reads an address: an integer from 0 to 2^64-1. Those with the top bit set, as XPUs have them, are negative
// here; they keep their order and their distances.
func (m *machine) address(where string, id uint32, v value) int64 {
	n, ok := m.unsigned(v)
	if !ok {
		m.fail("%s: %s is no integer from 0 to 2^64-1", where, m.strings[id])
	}
	return n
}

// unsigned returns the bits of an integer from 0 to 2^64-1.
func (m *machine) unsigned(v value) (int64, bool) {
	return v.n, v.kind == kUint || v.kind == kInt && v.n >= 0
}

// pastEnd reports whether so many bytes at an address reach beyond the addresses of its sign.
func pastEnd(addr, size int64) bool {
	if addr < 0 {
		return addr+size > 0
	}
	return addr > math.MaxInt64-size
}

// size reads a size: an integer from 0 to 2^63-1.
func (m *machine) size(where string, id uint32, v value) int64 {
	if v.kind != kInt {
		m.fail("%s: %s is no 64 bit integer", where, m.strings[id])
	}
	if v.n < 0 {
		m.fail("%s: %s is %d, negative or beyond 2^63", where, m.strings[id], v.n)
	}
	return v.n
}

// block makes a block of a dict's items.
func (m *machine) block(items []value) value {
	b := Block{unplaced: true}
	var state, size, requested bool
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			m.fail("block: a key that is no string")
		}
		switch id := uint32(k.n); id {
		case idAddress:
			b.Addr = m.address("block", id, v)
			b.unplaced = false
		case idSize:
			b.Size = m.size("block", id, v)
			size = true
		case idRequestedSize:
			b.Requested = m.size("block", id, v)
			requested = true
		case idState:
			if v.kind == kString && uint32(v.n) == idAwaiting { // as PyTorch's documentation spells it
				v.n = int64(idFirstState) + int64(PendingFree)
			}
			s := uint32(v.n) - idFirstState
			if v.kind != kString || uint32(v.n) < idFirstState || s >= uint32(len(stateNames)) {
				m.fail("block: state is none of inactive, active_allocated, active_pending_free")
			}
			b.State, state = BlockState(s), true
		case idFrames:
			b.Stack = m.stackOf(v)
		case idHistory:
			requested = m.blockHistory(&b, v) || requested
		}
	}
	if !state || !size {
		m.fail("block: wanted size and state")
	}
	if !requested && b.State != Inactive {
		b.Requested = b.Size
	}
	m.blockCount++
	m.blocks = append(m.blocks, b)
	return value{int64(len(m.blocks) - 1), kBlock}
}

// blockHistory takes the stack and the requested bytes of a block in use from
// what PyTorch 2.0 and before wrote in their place: a list of the allocations
// that were there, of which _memory_viz.py takes the first.
func (m *machine) blockHistory(b *Block, v value) (real bool) {
	made, ok := m.itemsOf(v, aList)
	if !ok {
		m.fail("block: history is no list")
	}
	if len(made) == 0 {
		return false
	}
	items, ok := m.itemsOf(made[0], aDict)
	if !ok {
		m.fail("block: history holds what is no dict")
	}
	for i := 0; i+1 < len(items); i += 2 {
		if items[i].kind != kString {
			continue
		}
		switch id := uint32(items[i].n); id {
		case idRealSize:
			b.Requested = m.size("block: history", id, items[i+1])
			real = true
		case idFrames:
			b.Stack = m.stackOf(items[i+1])
		}
	}
	return real
}

// segment makes a segment of a dict's items and the blocks read before it.
func (m *machine) segment(items []value) value {
	var s Segment
	const needAddr, needTotal, needBlocks = 1, 2, 4
	var seen uint8
	for i := 0; i+1 < len(items); i += 2 {
		k, v := items[i], items[i+1]
		if k.kind != kString {
			m.fail("segment: a key that is no string")
		}
		switch id := uint32(k.n); id {
		case idDevice:
			if v.kind != kInt || v.n < 0 || v.n > math.MaxUint16 {
				m.fail("segment: device is no number of a device")
			}
			s.Device = int(v.n)
		case idAddress:
			s.Addr = m.address("segment", id, v)
			seen |= needAddr
		case idTotalSize:
			s.Total = m.size("segment", id, v)
			seen |= needTotal
		case idAllocatedSize:
			s.Allocated = m.size("segment", id, v)
		case idActiveSize:
			s.Active = m.size("segment", id, v)
		case idRequestedSize:
			s.Requested = m.size("segment", id, v)
		case idStream:
			if v.kind != kInt {
				m.fail("segment: stream is no 64 bit integer")
			}
			s.Stream = v.n
		case idSegmentType:
			if v.kind != kString || uint32(v.n) != idLarge && uint32(v.n) != idSmall {
				m.fail("segment: segment_type is neither large nor small")
			}
			s.Small = uint32(v.n) == idSmall
		case idPool:
			pool, ok := m.itemsOf(v, aTuple)
			if !ok {
				pool, ok = m.itemsOf(v, aList)
			}
			if !ok || len(pool) != 2 || pool[0].kind != kInt || pool[1].kind != kInt {
				m.fail("segment: segment_pool_id is no pair of integers")
			}
			s.Pool = [2]int64{pool[0].n, pool[1].n}
			if !m.objects[v.n].got && m.objects[v.n].puts == 0 {
				m.retire(uint32(v.n), value{kind: kGone})
			}
		case idExpandable:
			if v.kind != kBool {
				m.fail("segment: is_expandable is no bool")
			}
			s.Expandable = v.n != 0
		case idFrames:
			s.Stack = m.stackOf(v)
		case idBlocks:
			if _, ok := m.itemsOf(v, aList); !ok || m.objects[v.n].role != roleBlocks {
				m.fail("segment: blocks is no list")
			}
			s.Blocks = slices.Clone(m.blocks)
			m.blocks = m.blocks[:0]
			m.retire(uint32(v.n), value{kind: kGone})
			seen |= needBlocks
		}
	}
	if seen != needAddr|needTotal|needBlocks {
		m.fail("segment: wanted address, total_size and blocks")
	}
	if pastEnd(s.Addr, s.Total) {
		m.fail("segment: its end is beyond 2^63, or beyond 2^64 where it begins above that")
	}
	// The allocator walks a segment's blocks from its beginning to its end.
	at, end := s.Addr, s.Addr+s.Total
	for i := range s.Blocks {
		b := &s.Blocks[i]
		if b.unplaced {
			b.Addr = at
		}
		if b.Addr != at {
			m.fail("segment at %#x: block %d begins at %#x, wanted %#x: blocks overlap or leave a gap",
				uint64(s.Addr),
				i, uint64(b.Addr), uint64(at))
		}
		if b.Size > end-at {
			m.fail("segment at %#x: block %d reaches beyond the segment's end", uint64(s.Addr), i)
		}
		at += b.Size
	}
	if at != end && len(s.Blocks) > 0 {
		m.fail("segment at %#x: blocks add up to %d bytes, wanted its %d", uint64(s.Addr), at-s.Addr, s.Total)
	}
	m.s.Segments = append(m.s.Segments, s)
	return value{int64(len(m.s.Segments) - 1), kSegment}
}
