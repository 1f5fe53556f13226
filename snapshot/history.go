package snapshot

import (
	"fmt"
	"slices"
)

// A Live is an allocation that is in use.
type Live struct {
	Addr      int64
	Size      int64 // of its block, which counts in Allocated
	Requested int64
	Stack     StackID
	Stream    int64
	Event     int // that allocated it, or -1: before the trace begins
}

// A Peak is where a figure was largest.
type Peak struct {
	Bytes int64
	Event int // after this event; -1 is before the first
}

// A Moment is what a device held just after an event.
type Moment struct {
	Allocated, Active, Requested, Reserved int64
	Count                                  int // allocations in use
}

// A History is the trace of one device, played from its beginning: the trace has
// what was requested, the history what each request took.
type History struct {
	Device     int
	Start, End Moment

	// The peaks over the recorded time. What came before it is unknown, unless
	// it was recorded from the beginning.
	Allocated, Active, Requested, Reserved Peak
	Count                                  int // most allocations in use at once
	SegmentCount                           int // most segments at once; expandable ones do not count

	OOMs []OutOfMemory

	// Before are the allocations that the trace does not show being made.
	Before []Live
	// Exact says that playing the trace ends in the very blocks that the
	// snapshot has. Doubts says where it does not, or what had to be inferred.
	Exact  bool
	Doubts []string
}

// An OutOfMemory is an allocation that failed.
type OutOfMemory struct {
	Event      int
	Tried      int64 // the block that was wanted
	DeviceFree int64 // what the device had left, other processes considered
	Moment     Moment
	// LargestFree is the largest cached block on the stream's side of the
	// allocator, Free all of them and Pieces their number.
	LargestFree, Free int64
	Pieces            int
}

// History plays the trace of a device. A trace that cannot have happened, such
// as one that frees an allocation twice, is an error.
func (s *Snapshot) History(device int) (*History, error) {
	p := &player{s: s, h: &History{Device: device}}
	if err := p.rewind(); err != nil {
		return nil, err
	}
	p.h.Start = p.now
	p.h.Allocated, p.h.Active = Peak{p.now.Allocated, -1}, Peak{p.now.Active, -1}
	p.h.Requested, p.h.Reserved = Peak{p.now.Requested, -1}, Peak{p.now.Reserved, -1}
	p.h.Count, p.h.SegmentCount = p.now.Count, p.segments
	if err := p.play(p.trace().Len()); err != nil {
		return nil, err
	}
	p.h.End = p.now
	p.compareEnd()
	p.h.Doubts = p.doubts
	p.h.Exact = len(p.doubts) == 0
	return p.h, nil
}

// LiveAt lists what was in use just after event i of a device; -1 is before the
// first. The largest blocks come first, equal ones by address.
func (s *Snapshot) LiveAt(device, i int) ([]Live, error) {
	p := &player{s: s, h: &History{Device: device}}
	if err := p.rewind(); err != nil {
		return nil, err
	}
	if err := p.play(min(i+1, p.trace().Len())); err != nil {
		return nil, err
	}
	var out []Live
	for _, r := range p.layout.regions {
		for _, b := range r.live {
			if !b.pending {
				out = append(out, b.Live)
			}
		}
	}
	for _, b := range p.lost {
		if !b.pending {
			out = append(out, b.Live)
		}
	}
	slices.SortFunc(out, func(a, b Live) int {
		if c := compare(b.Size, a.Size); c != 0 {
			return c
		}
		return compare(a.Addr, b.Addr)
	})
	return out, nil
}

// Beginning returns the segments that a device had when its trace begins, with
// the blocks that were in use then and the free space between them.
func (s *Snapshot) Beginning(device int) ([]Segment, error) {
	p := &player{s: s, h: &History{Device: device}}
	if err := p.rewind(); err != nil {
		return nil, err
	}
	var out []Segment
	for _, r := range p.layout.regions {
		g := Segment{Device: device, Addr: r.addr, Total: r.end - r.addr, Stream: r.stream, Small: r.small, Expandable: r.expandable}
		at := r.addr
		gap := func(end int64) {
			if end > at {
				g.Blocks = append(g.Blocks, Block{Addr: at, Size: end - at})
			}
		}
		for _, b := range r.live {
			gap(b.Addr)
			at = b.Addr + b.Size
			g.Blocks = append(g.Blocks, Block{Addr: b.Addr, Size: b.Size, Requested: b.Requested, State: ActiveAllocated, Stack: b.Stack})
			g.Allocated += b.Size
			g.Requested += b.Requested
		}
		gap(r.end)
		g.Active = g.Allocated
		out = append(out, g)
	}
	return out, nil
}

// A player plays a trace on a layout.
type player struct {
	s        *Snapshot
	h        *History
	layout   *layout
	lost     map[int64]*liveBlock // in no segment that is known
	now      Moment
	segments int
	doubts   []string
	allocs   bool           // the trace records allocations
	freed    map[int64]bool // by the trace, and not allocated since
}

var noTrace Trace

func (p *player) trace() *Trace {
	if p.h.Device < len(p.s.Traces) {
		return p.s.Traces[p.h.Device]
	}
	return &noTrace
}

func (p *player) doubt(format string, args ...any) {
	if len(p.doubts) < 20 {
		p.doubts = append(p.doubts, fmt.Sprintf(format, args...))
	}
}

// rewind makes the layout of the trace's beginning: it takes the snapshot's own
// and undoes the trace from its end.
func (p *player) rewind() error {
	p.layout = newLayout(p.s)
	p.lost = map[int64]*liveBlock{}
	p.freed = map[int64]bool{}
	blocks := map[int64]*liveBlock{}
	for i := range p.s.Segments {
		g := &p.s.Segments[i]
		if g.Device != p.h.Device {
			continue
		}
		p.layout.addRegion(g.Addr, g.Total, g.Expandable, g.Small, g.Stream)
		for k := range g.Blocks {
			b := &g.Blocks[k]
			if b.State != Inactive {
				blocks[b.Addr] = &liveBlock{Live: Live{Addr: b.Addr, Size: b.Size, Requested: b.Requested, Stack: b.Stack, Stream: g.Stream, Event: -1}}
			}
		}
	}
	t := p.trace()
	for i := t.Len() - 1; i >= 0; i-- {
		e := t.At(i)
		switch e.Action {
		case Alloc:
			delete(blocks, e.Addr)
			p.allocs = true
		case FreeCompleted, FreeRequested:
			if blocks[e.Addr] == nil {
				blocks[e.Addr] = &liveBlock{Live: Live{Addr: e.Addr, Requested: e.Size, Stream: p.s.Streams[e.Stream], Event: -1}}
			}
		case SegmentAlloc, SegmentMap:
			if !p.layout.cutRegion(e.Addr, e.Size) {
				p.doubt("event %d: %s at %#x is not in the snapshot's segments", i, p.s.ActionName(e.Action), e.Addr)
			}
		case SegmentFree, SegmentUnmap:
			if p.layout.find(e.Addr) != nil {
				return fmt.Errorf("device %d: event %d: %s at %#x, which is in use at that time", p.h.Device, i, p.s.ActionName(e.Action), e.Addr)
			}
			p.layout.addRegion(e.Addr, e.Size, e.Action == SegmentUnmap, e.Size == smallSegment, p.s.Streams[e.Stream])
		}
	}
	addrs := make([]int64, 0, len(blocks))
	for a := range blocks {
		addrs = append(addrs, a)
	}
	slices.Sort(addrs)
	for i, a := range addrs {
		b := blocks[a]
		r := p.layout.find(a)
		if b.Size == 0 {
			fits := false
			if r == nil {
				b.Size = p.layout.round(b.Requested)
			} else {
				end := r.end // how much a block takes depends on the next one's beginning
				if i+1 < len(addrs) {
					end = min(end, addrs[i+1])
				}
				b.Size, fits = p.layout.sizeUpTo(r, end, a, b.Requested)
			}
			if !fits {
				p.doubt("%#x, freed in the trace, was in no segment that is known", a)
			}
		}
		p.place(r, b)
		p.now.Allocated += b.Size
		p.now.Active += b.Size
		p.now.Requested += b.Requested
		p.now.Count++
	}
	for _, a := range addrs {
		p.h.Before = append(p.h.Before, blocks[a].Live)
	}
	for _, r := range p.layout.regions {
		p.now.Reserved += r.end - r.addr
		if !r.expandable {
			p.segments++
		}
	}
	return nil
}

func (p *player) place(r *region, b *liveBlock) {
	if r == nil {
		p.lost[b.Addr] = b
		return
	}
	r.put(b)
}

// block returns what is live at addr.
func (p *player) block(addr int64) (*region, *liveBlock) {
	if r := p.layout.find(addr); r != nil {
		if i, ok := r.at(addr); ok {
			return r, r.live[i]
		}
	}
	return nil, p.lost[addr]
}

// play plays the first n events.
func (p *player) play(n int) error {
	h := p.h
	for i, e := range p.trace().All() {
		if i >= n {
			break
		}
		switch e.Action {
		case Alloc:
			p.alloc(i, e)
		case FreeRequested, FreeCompleted:
			if err := p.free(i, e); err != nil {
				return err
			}
		case SegmentAlloc, SegmentMap:
			p.layout.addRegion(e.Addr, e.Size, e.Action == SegmentMap, e.Size == smallSegment, p.s.Streams[e.Stream])
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
			o := OutOfMemory{Event: i, Tried: e.Size, DeviceFree: e.Addr, Moment: p.now}
			p.freeSpace(&o)
			h.OOMs = append(h.OOMs, o)
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
	if r, old := p.block(e.Addr); old != nil {
		// Frees can be left out of a recording (skip_actions).
		p.doubt("event %d: allocates %#x, which was not freed", i, e.Addr)
		p.drop(r, old)
	}
	delete(p.freed, e.Addr)
	r := p.layout.find(e.Addr)
	size, fits := p.layout.size(r, e.Addr, e.Size)
	if !fits {
		p.doubt("event %d: allocates %d bytes at %#x, where there is no room for them", i, e.Size, e.Addr)
	}
	p.place(r, &liveBlock{Live: Live{Addr: e.Addr, Size: size, Requested: e.Size, Stack: e.Stack, Stream: p.s.Streams[e.Stream], Event: i}})
	p.now.Allocated += size
	p.now.Active += size
	p.now.Requested += e.Size
	p.now.Count++
}

// free handles both halves of a free: the request gives the memory back, the
// completion makes it usable again.
func (p *player) free(i int, e *Event) error {
	r, b := p.block(e.Addr)
	if b == nil {
		if p.allocs && p.freed[e.Addr] {
			return fmt.Errorf("device %d: event %d frees %#x, which is free already", p.h.Device, i, e.Addr)
		}
		p.doubt("event %d: frees %#x, which nothing allocated", i, e.Addr)
		return nil
	}
	if b.Requested != e.Size {
		p.doubt("event %d: frees %d bytes at %#x, where %d were allocated", i, e.Size, e.Addr, b.Requested)
	}
	if e.Action == FreeRequested && b.pending {
		return fmt.Errorf("device %d: event %d frees %#x, which is free already", p.h.Device, i, e.Addr)
	}
	if !b.pending {
		b.pending = true
		p.now.Allocated -= b.Size
		p.now.Count--
	}
	if e.Action == FreeCompleted {
		p.drop(r, b)
		p.freed[e.Addr] = true
	}
	return nil
}

// drop takes a block out of the layout.
func (p *player) drop(r *region, b *liveBlock) {
	if !b.pending {
		p.now.Allocated -= b.Size
		p.now.Count--
	}
	p.now.Active -= b.Size
	p.now.Requested -= b.Requested
	if r == nil {
		delete(p.lost, b.Addr)
		return
	}
	if k, ok := r.at(b.Addr); ok {
		r.live = slices.Delete(r.live, k, k+1)
	}
}

// freeSpace looks at the cached memory between the live blocks.
func (p *player) freeSpace(o *OutOfMemory) {
	for _, r := range p.layout.regions {
		at := r.addr
		gap := func(end int64) {
			if n := end - at; n > 0 {
				o.Free += n
				o.Pieces++
				o.LargestFree = max(o.LargestFree, n)
			}
		}
		for _, b := range r.live {
			gap(b.Addr)
			at = b.Addr + b.Size
		}
		gap(r.end)
	}
}

// compareEnd looks whether the trace led to the blocks that the snapshot has.
func (p *player) compareEnd() {
	f := p.s.Figures(p.h.Device)
	if p.now.Active != f.Active || p.now.Reserved != f.Reserved {
		p.doubt("the trace ends with %d bytes active and %d reserved, the snapshot's segments have %d and %d", p.now.Active, p.now.Reserved, f.Active, f.Reserved)
		return
	}
	for i := range p.s.Segments {
		g := &p.s.Segments[i]
		if g.Device != p.h.Device {
			continue
		}
		for k := range g.Blocks {
			b := &g.Blocks[k]
			_, l := p.block(b.Addr)
			if (l != nil) != (b.State != Inactive) || l != nil && l.Size != b.Size {
				p.doubt("the block at %#x is another at the end of the trace", b.Addr)
			}
		}
	}
}
