package caching

// An expandableSegment is a range of addresses that gets memory page by page. A
// pool has one for each stream. Its blocks tile the range: active, cached, and
// unmapped where there is no memory.
type expandableSegment struct {
	addr, size, page int64
}

func (a *Allocator) unmappedEntry(id int32) entry {
	b := a.at(id)
	return entry{stream: b.stream, id: id, addr: b.addr} // by address alone
}

// reserveExpandable makes a block of at least size bytes by mapping pages at the
// lowest address where the range, free and unmapped together, is long enough.
// The block is in no pool.
func (a *Allocator) reserveExpandable(p *pool, stream int32, size int64) int32 {
	id := a.findRange(p, stream, size)
	if id != none && a.at(id).state == unmapped {
		id = a.mapPages(p, id, min(a.at(id).size, size))
	}
	for id != none && a.at(id).size < size {
		next := a.at(id).next // mapping merges the block into it
		id = a.mapPages(p, next, min(size-a.at(id).size, a.at(next).size))
	}
	if id != none {
		p.free.remove(a.freeEntry(id))
	}
	return id
}

// findRange returns the first block of the lowest range of cached and unmapped
// blocks that ends in unmapped memory and has room for size bytes. A new segment
// is made when there is none.
func (a *Allocator) findRange(p *pool, stream int32, size int64) int32 {
	found := none
	p.unmapped.ascend(stream, 0, func(e entry) bool {
		id := e.id
		if prev := a.at(id).prev; prev != none && a.at(prev).state != active {
			id = prev
		}
		room := int64(0)
		for next := id; next != none && a.at(next).state != active && room < size; next = a.at(next).next {
			room += a.at(next).size
		}
		if room >= size {
			found = id
		}
		return found == none
	})
	if found != none {
		return found
	}
	page := int64(smallSegment)
	if !p.small {
		page = a.cfg.largeSegment()
	}
	// The range covers 1 1/8 of the device's memory, in whole pages.
	total := a.cfg.total()
	length := (total + total/8 + page - 1) / page * page
	if length < size {
		return none
	}
	addr := a.cfg.Address(length)
	a.expandable = append(a.expandable, expandableSegment{addr, length, page})
	id := a.newBlock(block{addr: addr, size: length, stream: stream, small: p.small, segment: int32(len(a.expandable)),
		state: unmapped})
	p.unmapped.insert(a.unmappedEntry(id))
	return id
}

// mapPages maps the first pages of an unmapped block, as many as cover size, and
// puts the result, merged with its neighbours, into the pool.
// It returns none when the device has no page left.
func (a *Allocator) mapPages(p *pool, id int32, size int64) int32 {
	b := a.at(id)
	seg := a.expandable[b.segment-1]
	mapped := (size + seg.page - 1) / seg.page * seg.page
	if a.stats.ReservedBytes.All.Current+mapped > a.capacity {
		return none
	}
	p.unmapped.remove(a.unmappedEntry(id))
	if mapped < b.size {
		pages := a.cut(id, mapped)
		p.unmapped.insert(a.unmappedEntry(id))
		id, b = pages, a.at(pages)
	}
	addr, stream := b.addr, b.stream
	b.state = cached
	a.merge(p, id, b.prev)
	a.merge(p, id, b.next)
	a.cache(p, id)
	a.stats.ReservedBytes.add(p.small, mapped)
	a.stats.DeviceAllocs++
	a.record(TraceEntry{Action: SegmentMap, Address: addr, Bytes: mapped, Stream: stream})
	return id
}

// unmap takes the whole pages inside a cached block of an expandable segment away.
func (a *Allocator) unmap(p *pool, id int32) {
	b := a.at(id)
	seg := a.expandable[b.segment-1]
	begin := (b.addr - seg.addr + seg.page - 1) / seg.page * seg.page
	end := (b.addr + b.size - seg.addr) / seg.page * seg.page
	if begin >= end {
		return
	}
	p.free.remove(a.freeEntry(id))
	addr, size := seg.addr+begin, end-begin
	if before := addr - b.addr; before > 0 {
		a.cache(p, a.cut(id, before))
	}
	if b.size > size {
		whole := a.cut(id, size)
		a.cache(p, id)
		id, b = whole, a.at(whole)
	}
	b.state = unmapped
	a.merge(p, id, b.prev)
	a.merge(p, id, b.next)
	p.unmapped.insert(a.unmappedEntry(id))
	a.stats.ReservedBytes.add(p.small, -size)
	a.stats.DeviceFrees++
	a.record(TraceEntry{Action: SegmentUnmap, Address: addr, Bytes: size, Stream: b.stream})
	if b.prev == none && b.next == none {
		// Nothing is left of the segment; its address range goes back too.
		p.unmapped.remove(a.unmappedEntry(id))
		a.drop(id)
	}
}
