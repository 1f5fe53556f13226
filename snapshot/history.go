package snapshot

import (
	"cmp"
	"math"
	"slices"
)

// A Live is an allocation that is in use.
type Live struct {
	Addr      int64
	Size      int64 // of its block, which counts in Allocated
	Requested int64
	Stream    int64
	Stack     StackID
	Event     int  // that allocated it, or -1: before the trace begins
	Pending   bool // freed, but another stream may still use it
}

// A Peak is where a figure was largest.
type Peak struct {
	Bytes int64 `json:"bytes"`
	Event int   `json:"event"` // after this event; -1 is before the first
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

	// Recorded says that the trace has events. Without them the peaks are those
	// of the moment of the snapshot, and what was before is unknown.
	Recorded bool
	// The peaks over the recorded time. What came before it is unknown, unless
	// it was recorded from the beginning.
	Allocated, Active, Requested, Reserved Peak
	Count                                  int // most allocations in use at once
	SegmentCount                           int // most segments at once; expandable ones do not count

	OOMs []OutOfMemory

	// Before are the allocations that the trace does not show being made, by address.
	Before []Live
	// Unsure is by how many bytes the allocations of Before may have taken more
	// or less than is assumed.
	Unsure int64
	// Exact says that playing the trace ends in the very blocks that the
	// snapshot has, with nothing inferred. Doubts says where it does not, or what
	// had to be inferred.
	Exact  bool
	Doubts []string
}

// An OutOfMemory is an allocation that failed.
type OutOfMemory struct {
	Event      int
	Tried      int64 // the block that was wanted
	DeviceFree int64 // what the device had left, other processes considered
	Stream     int64
	Stack      StackID
	Moment     Moment
}

// maxEvents bounds the events of one device that can be played.
const maxEvents = math.MaxInt32

// History plays the trace of a device. A trace that cannot have happened, such
// as one that frees an allocation twice, is an error.
func (s *Snapshot) History(device int) (*History, error) {
	return s.history(device, nil)
}

// history plays a trace, and tells took the block of each allocation.
func (s *Snapshot) history(device int, took func(size int64)) (*History, error) {
	p, err := s.player(device)
	if err != nil {
		return nil, err
	}
	p.took = took
	h := p.h
	h.Start = p.now
	h.Allocated, h.Active = Peak{p.now.Allocated, -1}, Peak{p.now.Active, -1}
	h.Requested, h.Reserved = Peak{p.now.Requested, -1}, Peak{p.now.Reserved, -1}
	h.Count, h.SegmentCount = p.now.Count, p.segments
	if err := p.play(0, maxEvents); err != nil {
		return nil, err
	}
	h.End = p.now
	p.compareEnd()
	h.Doubts = p.doubts
	h.Exact = len(p.doubts) == 0
	return h, nil
}

// player returns a player at the beginning of a device's trace.
func (s *Snapshot) player(device int) (*player, error) {
	p := &player{s: s, h: &History{Device: device}}
	return p, p.rewind()
}

// Moments calls f at each of some events of a device, given in rising order, with
// what was allocated and the segments just after it. It plays the trace once.
func (s *Snapshot) Moments(device int, events []int, f func(k int, live []Live, state []Segment)) error {
	p, err := s.player(device)
	if err != nil {
		return err
	}
	at := 0
	for k, i := range events {
		if err := p.play(at, i+1); err != nil {
			return err
		}
		at = max(at, i+1)
		f(k, p.held(), p.state())
	}
	return nil
}

// At returns what was allocated just after event i of a device, the largest blocks first, equal ones by address, and
// the segments of then, with the blocks in use and the free space between them; -1 is before the first event.
func (s *Snapshot) At(device, i int) (live []Live, state []Segment, err error) {
	err = s.Moments(device, []int{i}, func(_ int, l []Live, g []Segment) { live, state = l, g })
	return live, state, err
}

// state lists the segments of now. Blocks that lie in none are left out.
func (p *player) state() []Segment {
	var out []Segment
	blocks := p.layout.live.Iter()
	more := blocks.First()
	p.layout.regions.Scan(func(_ int64, r region) bool {
		g := Segment{Device: p.h.Device, Addr: r.addr, Total: r.end - r.addr, Stream: r.stream, Small: r.small,
			Expandable: r.expandable, Pool: r.pool}
		at := r.addr
		gap := func(end int64) {
			if end > at {
				g.Blocks = append(g.Blocks, Block{Addr: at, Size: end - at})
			}
		}
		for ; more && blocks.Key() < r.end; more = blocks.Next() {
			addr, b := blocks.Key(), blocks.Value()
			if addr < at {
				continue
			}
			gap(addr)
			l := p.liveOf(addr, b)
			k := Block{Addr: addr, Size: min(l.Size, r.end-addr), Requested: l.Requested, State: ActiveAllocated, Stack: l.Stack}
			at = addr + k.Size
			g.Active += k.Size
			g.Requested += k.Requested
			if b.pending {
				k.State = PendingFree
			} else {
				g.Allocated += k.Size
			}
			g.Blocks = append(g.Blocks, k)
		}
		gap(r.end)
		out = append(out, g)
		return true
	})
	return out
}

// A FreeSpace is cached memory that only requests of its kind can have: those of
// one stream, one pool, and one of the sizes small (up to 1 MiB) and large.
type FreeSpace struct {
	Stream  int64
	Pool    [2]int64 // (0, 0) but for the private pools of CUDA graphs
	Small   bool
	Bytes   int64
	Pieces  int
	Largest int64
}

// Serves says whether a request of a stream may have it. Which private pool a
// request is for is not recorded.
func (f *FreeSpace) Serves(stream, requested int64) bool {
	return f.Stream == stream && f.Small == (requested <= smallSize) && f.Pool == [2]int64{}
}

// FreeSpaces adds up the free blocks of segments by what can have them, the
// largest first.
func FreeSpaces(segments []Segment) []FreeSpace {
	type kind struct {
		stream int64
		pool   [2]int64
		small  bool
	}
	var out []FreeSpace
	places := map[kind]int{}
	for i := range segments {
		g := &segments[i]
		for k := range g.Blocks {
			b := &g.Blocks[k]
			if b.State != Inactive {
				continue
			}
			at, ok := places[kind{g.Stream, g.Pool, g.Small}]
			if !ok {
				at = len(out)
				places[kind{g.Stream, g.Pool, g.Small}] = at
				out = append(out, FreeSpace{Stream: g.Stream, Pool: g.Pool, Small: g.Small})
			}
			f := &out[at]
			f.Bytes += b.Size
			f.Pieces++
			f.Largest = max(f.Largest, b.Size)
		}
	}
	slices.SortFunc(out, func(a, b FreeSpace) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Stream, b.Stream))
	})
	return out
}
