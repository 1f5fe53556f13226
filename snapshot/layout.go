package snapshot

import (
	"math/bits"
	"slices"
)

// A region is a segment during the trace, with its blocks in use by address.
type region struct {
	addr, end  int64
	expandable bool
	small      bool // of the small pool
	stream     int64
	live       []*liveBlock
}

type liveBlock struct {
	Live
	pending bool // freed, another stream may still use it
}

// A layout is where blocks lie. An allocation at a known address needs no
// search: how much it takes follows from the free space behind it.
type layout struct {
	regions  []*region // by address
	maxSplit int64     // 0: every block may be split
	roundup  [16]int64
}

// Constants of c10/core/AllocatorConfig.h.
const (
	minBlock     = 512
	smallSize    = 1 << 20
	smallSegment = 2 << 20 // large segments are of other sizes
)

func newLayout(s *Snapshot) *layout {
	l := &layout{}
	if v, ok := s.Setting("max_split_size"); ok && v.Kind == Int && v.Int > 0 {
		l.maxSplit = v.Int
	}
	if v, ok := s.Setting("roundup_power2_divisions"); ok && v.Kind == Dict {
		for i := 0; i+1 < len(v.Items); i += 2 {
			if v.Items[i+1].Kind == Int {
				for k := range l.roundup {
					if v.Items[i].Text == powers[k] {
						l.roundup[k] = v.Items[i+1].Int
					}
				}
			}
		}
	}
	return l
}

// powers are the keys of roundup_power2_divisions, in MiB.
var powers = [16]string{"1", "2", "4", "8", "16", "32", "64", "128", "256", "512", "1024", "2048", "4096", "8192", "16384", "32768"}

// round is the size that a request is rounded up to (round_size in
// c10/cuda/CUDACachingAllocator.cpp).
func (l *layout) round(n int64) int64 {
	if n < minBlock {
		return minBlock
	}
	if n > 1<<62 {
		return n
	}
	at := min(max(bits.Len64(uint64(n))-1-20, 0), len(l.roundup)-1)
	if d := l.roundup[at]; d > 1 && n > minBlock*d {
		if n&(n-1) == 0 {
			return n
		}
		floor := int64(1) << (bits.Len64(uint64(n)) - 1)
		step := floor >> (bits.Len64(uint64(d)) - 1)
		if step == 0 {
			return floor << 1
		}
		return (n + step - 1) / step * step
	}
	return (n + minBlock - 1) / minBlock * minBlock
}

// find returns the region that holds addr, or nil.
func (l *layout) find(addr int64) *region {
	if i := l.index(addr); i >= 0 {
		return l.regions[i]
	}
	return nil
}

// index returns the place of the region that holds addr, or -1.
func (l *layout) index(addr int64) int {
	i, ok := slices.BinarySearchFunc(l.regions, addr, func(r *region, a int64) int { return compare(r.addr, a) })
	if !ok {
		i--
	}
	if i < 0 || addr >= l.regions[i].end {
		return -1
	}
	return i
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// at returns where in the region the block at addr is, or would go.
func (r *region) at(addr int64) (int, bool) {
	return slices.BinarySearchFunc(r.live, addr, func(b *liveBlock, a int64) int { return compare(b.Addr, a) })
}

// size is how much of the memory behind addr a request takes, as far as the next block in use.
func (l *layout) size(r *region, addr, requested int64) (size int64, fits bool) {
	if r == nil {
		return l.round(requested), false
	}
	end := r.end
	if i, _ := r.at(addr); i < len(r.live) {
		end = r.live[i].Addr
	}
	return l.sizeUpTo(r, end, addr, requested)
}

// sizeUpTo is how much of the memory from addr to end a request takes: all of that free
// block, unless what is left over is worth splitting off (should_split).
func (l *layout) sizeUpTo(r *region, end, addr, requested int64) (size int64, fits bool) {
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

// put makes a block live. It does not overlap another that is live.
func (r *region) put(b *liveBlock) {
	i, _ := r.at(b.Addr)
	r.live = slices.Insert(r.live, i, b)
}

// addRegion maps memory. Mapped ranges of expandable segments that touch are one.
func (l *layout) addRegion(addr, bytes int64, expandable, small bool, stream int64) {
	i, _ := slices.BinarySearchFunc(l.regions, addr, func(r *region, a int64) int { return compare(r.addr, a) })
	n := &region{addr: addr, end: addr + bytes, expandable: expandable, small: small, stream: stream}
	if expandable && i > 0 && l.regions[i-1].expandable && l.regions[i-1].end == addr {
		n = l.regions[i-1]
		n.end = addr + bytes
		i--
	} else {
		l.regions = slices.Insert(l.regions, i, n)
	}
	if i+1 < len(l.regions) && expandable && l.regions[i+1].expandable && l.regions[i+1].addr == n.end {
		n.end = l.regions[i+1].end
		n.live = append(n.live, l.regions[i+1].live...)
		l.regions = slices.Delete(l.regions, i+1, i+2)
	}
}

// cutRegion unmaps memory, which may be a part of an expandable segment.
func (l *layout) cutRegion(addr, bytes int64) bool {
	i := l.index(addr)
	if i < 0 || addr+bytes > l.regions[i].end {
		return false
	}
	r := l.regions[i]
	var parts []*region
	if r.addr < addr {
		parts = append(parts, &region{addr: r.addr, end: addr, expandable: r.expandable, small: r.small, stream: r.stream})
	}
	if addr+bytes < r.end {
		parts = append(parts, &region{addr: addr + bytes, end: r.end, expandable: r.expandable, small: r.small, stream: r.stream})
	}
	for _, b := range r.live {
		for _, p := range parts {
			if b.Addr >= p.addr && b.Addr < p.end {
				p.live = append(p.live, b)
			}
		}
	}
	l.regions = slices.Replace(l.regions, i, i+1, parts...)
	return true
}
