package caching

import "fmt"

// Free gives a block back: it merges with cached neighbours and stays reserved.
// It fails for a block that is not handed out.
func (a *Allocator) Free(b Block) error {
	id := int32(b)
	if id == none {
		return nil
	}
	if id < 0 || int(id) >= a.blocks.Len() || a.at(id).state != active {
		return fmt.Errorf("caching: block %d is freed but not allocated", b)
	}
	blk := a.at(id)
	p := &a.pools[0]
	if blk.small {
		p = &a.pools[1]
	}
	size, requested := blk.size, blk.requested
	a.stats.Allocation.add(p.small, -1)
	a.stats.AllocatedBytes.add(p.small, -size)
	if size >= a.maxSplit {
		a.stats.OversizeAllocations.add(-1)
	}
	a.record(TraceEntry{Action: FreeRequested, Address: blk.addr, Bytes: requested, Stream: blk.stream})
	a.record(TraceEntry{Action: FreeCompleted, Address: blk.addr, Bytes: requested, Stream: blk.stream})

	blk.state = cached
	blk.requested = 0
	count, bytes := int64(0), int64(0)
	for _, neighbour := range [2]int32{blk.prev, blk.next} {
		if merged := a.merge(p, id, neighbour); merged > 0 {
			count--
			bytes -= merged
		}
	}
	a.cache(p, id)
	if blk.prev != none || blk.next != none {
		count++
		bytes += blk.size
	}
	if blk.segment == none {
		a.stats.InactiveSplit.add(p.small, count)
		a.stats.InactiveSplitBytes.add(p.small, bytes)
	}
	a.stats.RequestedBytes.add(p.small, -requested)
	return nil
}

// merge joins a neighbour of the same state to a block that is in no pool, and
// returns the bytes gained.
func (a *Allocator) merge(p *pool, id, neighbour int32) int64 {
	if neighbour == none {
		return 0
	}
	dst, src := a.at(id), a.at(neighbour)
	if src.state != dst.state {
		return 0
	}
	if dst.prev == neighbour {
		dst.addr = src.addr
		dst.prev = src.prev
		if dst.prev != none {
			a.at(dst.prev).next = id
		}
	} else {
		dst.next = src.next
		if dst.next != none {
			a.at(dst.next).prev = id
		}
	}
	if src.state == unmapped {
		p.unmapped.remove(a.unmappedEntry(neighbour))
	} else {
		p.free.remove(a.freeEntry(neighbour))
	}
	gained := src.size
	dst.size += gained
	a.drop(neighbour)
	return gained
}
