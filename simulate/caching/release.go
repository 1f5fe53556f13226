package caching

import (
	"slices"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// EmptyCache gives every segment, and every page of an expandable segment, that
// holds no block back to the device: torch.cuda.empty_cache. Private pools keep theirs.
func (a *Allocator) EmptyCache() {
	a.stats.SyncAllStreams++
	for i := range a.pools {
		p := &a.pools[i]
		ids := a.scratch[:0]
		for e := range p.free.all {
			b := a.at(e.id)
			if b.stream < timeline.PrivatePools && (b.segment != none || b.prev == none && b.next == none) {
				ids = append(ids, e.id)
			}
		}
		a.scratch = ids
		// Unmapping comes second, because it changes the pool.
		for _, id := range ids {
			if a.at(id).segment == none {
				a.releaseSegment(p, id)
			}
		}
		for _, id := range ids {
			if a.at(id).segment != none {
				a.unmap(p, id)
			}
		}
	}
}

// releaseSegment gives a segment that is one cached block back to the device.
func (a *Allocator) releaseSegment(p *pool, id int32) {
	b := a.at(id)
	a.stats.DeviceFrees++
	a.stats.Segment.add(p.small, -1)
	a.stats.ReservedBytes.add(p.small, -b.size)
	if b.size >= a.maxSplit {
		a.stats.OversizeSegments.add(-1)
	}
	a.record(TraceEntry{Action: SegmentFree, Address: b.addr, Bytes: b.size, Stream: b.stream})
	p.free.remove(a.freeEntry(id))
	a.drop(id)
}

// releaseOversize gives back just enough of the blocks too large to be split
// that the request may fit: the smallest one that is as large as the request,
// else the largest ones until their sum is. It says whether that was enough.
// Nothing happens unless max_split_size is set.
func (a *Allocator) releaseOversize(p *pool, stream int32, size int64) bool {
	if a.cfg.Options.MaxSplitSize == 0 || a.cfg.Options.ExpandableSegments {
		return false
	}
	want := max(size, a.maxSplit)
	if e, ok := p.free.first(stream, want); ok {
		return a.releaseWhole(p, e.id)
	}
	var smaller []entry
	p.free.ascend(stream, a.maxSplit, func(e entry) bool {
		smaller = append(smaller, e)
		return true
	})
	released := int64(0)
	for _, e := range slices.Backward(smaller) {
		if released >= want || !a.releaseWhole(p, e.id) {
			break
		}
		released += e.size
	}
	return released >= want
}

// releaseWhole gives a cached block back if it is a whole segment.
func (a *Allocator) releaseWhole(p *pool, id int32) bool {
	b := a.at(id)
	if b.prev != none || b.next != none {
		return false
	}
	a.releaseSegment(p, id)
	return true
}

// collectGarbage gives cached segments of the large pool that were passed over
// longest back, until what is reserved falls below the threshold.
func (a *Allocator) collectGarbage() {
	reserved := a.stats.ReservedBytes.All.Current
	if reserved <= a.gcLimit {
		return
	}
	want := reserved - a.gcLimit
	p := &a.pools[0]
	ids := a.scratch[:0]
	age := int64(0)
	for e := range p.free.all {
		id, b := e.id, a.at(e.id)
		if b.stream < timeline.PrivatePools && b.segment == none && b.prev == none && b.next == none {
			ids = append(ids, id)
			age += p.searches - a.gcBase[id]
		}
	}
	a.scratch = ids
	left := len(ids)
	for freed := true; freed && want > 0 && left > 0; {
		freed = false
		threshold := float64(age) / float64(left)
		for i, id := range ids {
			if id == none {
				continue
			}
			b := a.at(id)
			old := p.searches - a.gcBase[id]
			if float64(old) < threshold {
				continue
			}
			freed = true
			want -= b.size
			age -= old
			left--
			a.releaseSegment(p, id)
			ids[i] = none
		}
	}
}
