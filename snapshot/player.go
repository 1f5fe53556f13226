package snapshot

import (
	"cmp"
	"fmt"
	"slices"
)

// A player plays a trace on a layout.
type player struct {
	s        *Snapshot
	h        *History
	layout   *layout
	before   []origin // of the blocks that the trace does not show being made
	unused   []int32  // places in before
	now      Moment
	segments int
	doubts   []string
	allocs   bool // the trace records allocations
	requests bool // and the first half of frees
	freed    map[int64]bool
	took     func(size int64)
}

// An origin says of a block what the event that made it would.
type origin struct {
	requested int64
	stream    int64
	stack     StackID
}

var noTrace Trace

// Trace returns the trace of a device, an empty one where the file has none.
func (s *Snapshot) Trace(device int) *Trace {
	if device >= 0 && device < len(s.Traces) {
		return s.Traces[device]
	}
	return &noTrace
}

func (p *player) trace() *Trace { return p.s.Trace(p.h.Device) }

func (p *player) doubt(format string, args ...any) {
	if len(p.doubts) < 20 {
		p.doubts = append(p.doubts, fmt.Sprintf(format, args...))
	}
}

// remember keeps the origin of a block that the trace does not show being made.
func (p *player) remember(o origin) int32 {
	if n := len(p.unused); n > 0 {
		k := p.unused[n-1]
		p.unused = p.unused[:n-1]
		p.before[k] = o
		return ^k
	}
	p.before = append(p.before, o)
	return ^int32(len(p.before) - 1)
}

func (p *player) forget(b liveBlock) {
	if b.origin < 0 {
		p.unused = append(p.unused, ^b.origin)
	}
}

// liveOf is what is known of a block.
func (p *player) liveOf(addr int64, b liveBlock) Live {
	l := Live{Addr: addr, Size: b.size, Pending: b.pending, Event: -1}
	if b.origin < 0 {
		o := &p.before[^b.origin]
		l.Requested, l.Stream, l.Stack = o.requested, o.stream, o.stack
		return l
	}
	e := p.trace().At(int(b.origin))
	l.Requested, l.Stream, l.Stack, l.Event = e.Size, p.s.Streams[e.Stream], e.Stack, int(b.origin)
	return l
}

func (p *player) requested(b liveBlock) int64 {
	if b.origin < 0 {
		return p.before[^b.origin].requested
	}
	return p.trace().At(int(b.origin)).Size
}

// rewind makes the layout of the trace's beginning: it takes the snapshot's own
// and undoes the trace from its end.
func (p *player) rewind() error {
	l := newLayout(p.s)
	p.layout = l
	t := p.trace()
	if t.Len() > maxEvents {
		return fmt.Errorf("device %d: %d events, more than %d", p.h.Device, t.Len(), maxEvents)
	}
	for i := range p.s.Segments {
		g := &p.s.Segments[i]
		if g.Device != p.h.Device {
			continue
		}
		l.addRegion(region{addr: g.Addr, end: g.Addr + g.Total, expandable: g.Expandable, small: g.Small, stream: g.Stream,
			pool: g.Pool})
		for k := range g.Blocks {
			if b := &g.Blocks[k]; b.State != Inactive {
				o := p.remember(origin{requested: b.Requested, stream: g.Stream, stack: b.Stack})
				l.live.Set(b.Addr, liveBlock{size: b.Size, origin: o, pending: b.State == PendingFree})
			}
		}
	}
	for _, e := range t.All() {
		p.allocs = p.allocs || e.Action == Alloc
		p.requests = p.requests || e.Action == FreeRequested
		p.h.Recorded = p.h.Recorded || e.Action != Snap
	}
	var unsized []int64
	for i := t.Len() - 1; i >= 0; i-- {
		e := t.At(i)
		switch e.Action {
		case Alloc:
			if b, ok := l.live.Delete(e.Addr); ok {
				p.forget(b)
			}
		case FreeCompleted, FreeRequested:
			b, ok := l.live.Get(e.Addr)
			if !ok {
				b.origin = p.remember(origin{requested: e.Size, stream: p.s.Streams[e.Stream]})
				unsized = append(unsized, e.Addr)
			}
			// Where frees come in two halves, one of which only the second is
			// recorded had been asked for before.
			b.pending = e.Action == FreeCompleted && p.requests
			l.live.Set(e.Addr, b)
		case SegmentAlloc, SegmentMap:
			if !l.cutRegion(e.Addr, e.Size) {
				p.doubt("event %d: %s at %#x is not in the snapshot's segments", i, p.s.ActionName(e.Action), uint64(e.Addr))
			}
		case SegmentFree, SegmentUnmap:
			if _, ok := l.find(e.Addr); ok {
				return fmt.Errorf("device %d: event %d: %s at %#x, which is in use at that time", p.h.Device, i,
					p.s.ActionName(e.Action), uint64(e.Addr))
			}
			l.addRegion(p.regionOf(e))
		}
	}
	p.sizeBlocks(unsized)
	p.h.Before = make([]Live, 0, l.live.Len())
	l.live.Scan(func(addr int64, b liveBlock) bool {
		x := p.liveOf(addr, b)
		p.h.Before = append(p.h.Before, x)
		p.now.Active += x.Size
		p.now.Requested += x.Requested
		if !x.Pending {
			p.now.Allocated += x.Size
			p.now.Count++
		}
		return true
	})
	l.regions.Scan(func(_ int64, r region) bool {
		p.now.Reserved += r.end - r.addr
		if !r.expandable {
			p.segments++
		}
		return true
	})
	return nil
}

// regionOf is the region that a segment's event makes or takes away.
func (p *player) regionOf(e *Event) region {
	return region{addr: e.Addr, end: e.Addr + e.Size, expandable: e.Action == SegmentMap ||
		e.Action == SegmentUnmap, small: e.Size == SmallSegment, stream: p.s.Streams[e.Stream]}
}

// sizeBlocks finds out how much was taken by allocations of which the trace has
// the end alone. What lies behind one may be a part of it, or free space that
// another left: where that cannot be told, it is doubtful.
func (p *player) sizeBlocks(addrs []int64) {
	l := p.layout
	unsure := 0
	for _, a := range addrs {
		b, ok := l.live.Get(a)
		if !ok || b.size > 0 {
			continue
		}
		requested := p.requested(b)
		least := l.round(requested)
		b.size = least
		if r, ok := l.find(a); ok {
			end := l.next(a, r.end)
			var fits bool
			if b.size, fits = l.sizeUpTo(r, end, a, requested); !fits {
				p.doubt("%#x, freed in the trace, was in no segment that is known", uint64(a))
			}
			if spare := end - a - least; spare > 0 && least > smallSize && !r.expandable {
				unsure++
				p.h.Unsure += max(min(spare, smallSize), b.size-least)
			}
		} else {
			p.doubt("%#x, freed in the trace, was in no segment that is known", uint64(a))
		}
		l.live.Set(a, b)
	}
	if unsure > 0 {
		p.doubt("%d allocations were made before the recording and freed in it: what they took is known to within %d bytes",
			unsure, p.h.Unsure)
	}
}

// play plays the events from begin to end.
func (p *player) play(begin, end int) error {
	h, t := p.h, p.trace()
	for i := begin; i < min(end, t.Len()); i++ {
		e := t.At(i)
		switch e.Action {
		case Alloc:
			p.alloc(i, e)
		case FreeRequested, FreeCompleted:
			if err := p.free(i, e); err != nil {
				return err
			}
		case SegmentAlloc, SegmentMap:
			p.layout.addRegion(p.regionOf(e))
			p.now.Reserved += e.Size
			if e.Action == SegmentAlloc {
				p.segments++
			}
		case SegmentFree, SegmentUnmap:
			p.layout.cutRegion(e.Addr, e.Size)
			p.now.Reserved -= e.Size
			if e.Action == SegmentFree {
				p.segments--
			}
		case OOM:
			h.OOMs = append(h.OOMs, OutOfMemory{Event: i, Tried: e.Size, DeviceFree: e.Addr, Stack: e.Stack,
				Stream: p.s.Streams[e.Stream], Moment: p.now})
		}
		raise(&h.Allocated, p.now.Allocated, i)
		raise(&h.Active, p.now.Active, i)
		raise(&h.Requested, p.now.Requested, i)
		raise(&h.Reserved, p.now.Reserved, i)
		h.Count = max(h.Count, p.now.Count)
		h.SegmentCount = max(h.SegmentCount, p.segments)
	}
	return nil
}

func raise(p *Peak, bytes int64, event int) {
	if bytes > p.Bytes {
		*p = Peak{bytes, event}
	}
}

func (p *player) alloc(i int, e *Event) {
	if old, ok := p.layout.live.Get(e.Addr); ok {
		// Frees can be left out of a recording (skip_actions).
		p.doubt("event %d: allocates %#x, which was not freed", i, uint64(e.Addr))
		p.drop(e.Addr, old)
	}
	if p.freed != nil {
		delete(p.freed, e.Addr)
	}
	size, fits := p.layout.size(e.Addr, e.Size)
	if !fits {
		p.doubt("event %d: allocates %d bytes at %#x, where there is no room for them", i, e.Size, uint64(e.Addr))
	}
	p.layout.live.Set(e.Addr, liveBlock{size: size, origin: int32(i)})
	if p.took != nil {
		p.took(size)
	}
	p.now.Allocated += size
	p.now.Active += size
	p.now.Requested += e.Size
	p.now.Count++
}

// free handles both halves of a free: the request gives the memory back, the
// completion makes it usable again.
func (p *player) free(i int, e *Event) error {
	b, ok := p.layout.live.Get(e.Addr)
	if !ok {
		if p.allocs && p.wasFreed(i, e.Addr) {
			return fmt.Errorf("device %d: event %d frees %#x, which is free already", p.h.Device, i, uint64(e.Addr))
		}
		p.doubt("event %d: frees %#x, which nothing allocated", i, uint64(e.Addr))
		return nil
	}
	if n := p.requested(b); n != e.Size {
		p.doubt("event %d: frees %d bytes at %#x, where %d were allocated", i, e.Size, uint64(e.Addr), n)
	}
	if e.Action == FreeRequested && b.pending {
		return fmt.Errorf("device %d: event %d frees %#x, which is free already", p.h.Device, i, uint64(e.Addr))
	}
	if e.Action == FreeCompleted {
		p.drop(e.Addr, b)
		if p.freed != nil {
			p.freed[e.Addr] = true
		}
		return nil
	}
	p.now.Allocated -= b.size
	p.now.Count--
	b.pending = true
	p.layout.live.Set(e.Addr, b)
	return nil
}

// wasFreed says whether an event before i freed what is at addr, with nothing
// allocated there since. Only files with events left out ask for it.
func (p *player) wasFreed(i int, addr int64) bool {
	if p.freed == nil {
		p.freed = map[int64]bool{}
		t := p.trace()
		for k := range i {
			switch e := t.At(k); e.Action {
			case FreeCompleted:
				p.freed[e.Addr] = true
			case Alloc:
				delete(p.freed, e.Addr)
			}
		}
	}
	return p.freed[addr]
}

// drop takes a block out of the layout.
func (p *player) drop(addr int64, b liveBlock) {
	if !b.pending {
		p.now.Allocated -= b.size
		p.now.Count--
	}
	p.now.Active -= b.size
	p.now.Requested -= p.requested(b)
	p.layout.live.Delete(addr)
}

// compareEnd looks whether the trace led to the blocks that the snapshot has.
func (p *player) compareEnd() {
	f := p.s.Figures(p.h.Device)
	if p.now.Active != f.Active || p.now.Allocated != f.Allocated || p.now.Reserved != f.Reserved {
		p.doubt("the trace ends with %d bytes allocated, %d active and %d reserved, the snapshot's "+
			"segments have %d, %d and %d",
			p.now.Allocated, p.now.Active, p.now.Reserved, f.Allocated, f.Active, f.Reserved)
		return
	}
	for i := range p.s.Segments {
		g := &p.s.Segments[i]
		if g.Device != p.h.Device {
			continue
		}
		for k := range g.Blocks {
			b := &g.Blocks[k]
			l, ok := p.layout.live.Get(b.Addr)
			if ok != (b.State != Inactive) || ok && l.size != b.Size {
				p.doubt("the block at %#x is another at the end of the trace", uint64(b.Addr))
			}
		}
	}
}

// held lists what is allocated now, the largest blocks first, equal ones by address.
func (p *player) held() []Live {
	out := make([]Live, 0, p.now.Count)
	p.layout.live.Scan(func(addr int64, b liveBlock) bool {
		if !b.pending {
			out = append(out, p.liveOf(addr, b))
		}
		return true
	})
	slices.SortFunc(out, func(a, b Live) int {
		return cmp.Or(cmp.Compare(b.Size, a.Size), cmp.Compare(a.Addr, b.Addr))
	})
	return out
}
