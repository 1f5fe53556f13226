package snapshot

import (
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/tidwall/btree"
)

// A region is a segment during the trace.
type region struct {
	addr, end  int64
	stream     int64
	pool       [2]int64 // of a CUDA graph's private pool; zero where the file does not say
	expandable bool
	small      bool // of the small pool
}

// A liveBlock is a block in use. What else is known of it says its origin: an
// event of the trace, or below zero ^origin in player.before.
type liveBlock struct {
	size    int64
	origin  int32
	pending bool // freed, another stream may still use it
}

// A layout is where blocks lie: segments and blocks in use by address, in
// balanced trees, since a trace may make and free either in any order. An
// allocation at a known address needs no search: how much it takes follows from
// the free space behind it.
type layout struct {
	regions  btree.Map[int64, region]
	live     btree.Map[int64, liveBlock]
	last     region          // that find found last; empty where it may be another by now
	maxSplit int64           // 0: every block may be split
	settings caching.Options // as far as they round
}

// Constants of c10/core/AllocatorConfig.h.
const (
	minBlock  = 512
	smallSize = 1 << 20
	// SmallSegment is the size of the segments of the small pool; large ones have others.
	SmallSegment = 2 << 20
)

func newLayout(s *Snapshot) *layout {
	return &layout{maxSplit: s.maxSplit, settings: caching.Options{RoundupDivisions: s.roundup}}
}

// round is the size that a request is rounded up to.
func (l *layout) round(n int64) int64 {
	if n > 1<<62 {
		return n
	}
	return l.settings.RoundSize(n)
}

// find returns the region that holds addr.
func (l *layout) find(addr int64) (region, bool) {
	if addr >= l.last.addr && addr < l.last.end {
		return l.last, true
	}
	var found region
	l.regions.Descend(addr, func(_ int64, r region) bool {
		found = r
		return false
	})
	if addr >= found.end {
		return region{}, false
	}
	l.last = found
	return found, true
}

// next is the address of the first block in use behind addr, or end.
func (l *layout) next(addr, end int64) int64 {
	l.live.Ascend(addr+1, func(a int64, _ liveBlock) bool {
		end = min(end, a)
		return false
	})
	return end
}

// size is how much of the memory behind addr a request takes, as far as the
// next block in use.
func (l *layout) size(addr, requested int64) (size int64, fits bool) {
	r, ok := l.find(addr)
	if !ok {
		return l.round(requested), false
	}
	return l.sizeUpTo(r, l.next(addr, r.end), addr, requested)
}

// sizeUpTo is how much of the memory from addr to end a request takes: all of that free
// block, unless what is left over is worth splitting off (should_split).
func (l *layout) sizeUpTo(r region, end, addr, requested int64) (size int64, fits bool) {
	size = l.round(requested)
	rest := end - addr - size
	switch {
	case rest < 0:
		return size, false
	case size <= smallSize || r.expandable:
		if rest >= minBlock {
			return size, true
		}
	case rest > smallSize && (l.maxSplit == 0 || size < l.maxSplit):
		return size, true
	}
	return size + rest, true
}

// addRegion maps memory. Mapped ranges of one expandable segment that touch are one.
func (l *layout) addRegion(n region) {
	l.last = region{}
	if n.expandable {
		l.regions.Descend(n.addr, func(_ int64, r region) bool {
			if r.end == n.addr && r.joins(n) {
				n.addr = r.addr
			}
			return false
		})
		if r, ok := l.regions.Get(n.end); ok && r.joins(n) {
			l.regions.Delete(r.addr)
			n.end = r.end
		}
	}
	l.regions.Set(n.addr, n)
}

func (r region) joins(n region) bool {
	return r.expandable && n.expandable && r.small == n.small && r.stream == n.stream
}

// cutRegion unmaps memory, which may be a part of an expandable segment.
func (l *layout) cutRegion(addr, bytes int64) bool {
	r, ok := l.find(addr)
	if !ok || bytes > r.end-addr {
		return false
	}
	l.last = region{}
	l.regions.Delete(r.addr)
	if r.addr < addr {
		front := r
		front.end = addr
		l.regions.Set(front.addr, front)
	}
	if addr+bytes < r.end {
		back := r
		back.addr = addr + bytes
		l.regions.Set(back.addr, back)
	}
	return true
}
