// Package replay runs the requests that a memory snapshot recorded through the
// simulated allocator, under the settings they were made with or under others.
package replay

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/snapshot"
)

// A Result is what one replay came to.
type Result struct {
	PeakAllocated, PeakReserved int64     // bytes
	Failed                      []Failure // events whose allocation did not succeed
}

// A Failure is an allocation that ran out of memory.
type Failure struct {
	Event    int
	OOM      *caching.OOM
	Recorded bool // it failed in the recording as well
}

// A Trial is what to do otherwise than the recording did.
type Trial struct {
	Conf     string // PYTORCH_CUDA_ALLOC_CONF
	Capacity int64  // what the allocator may reserve; 0 is no bound
	Until    int    // the last event to replay; 0 is all
	// Request, where set, says what each allocation asks for.
	Request func(event int, e *snapshot.Event) int64
	// OneStream has all streams share the cached memory.
	OneStream bool
	// Gone, where set, are allocations to give back before event GoneAt, by the
	// addresses of the recording.
	Gone   map[int64]bool
	GoneAt int
}

// Try replays a device's trace otherwise than recorded. The allocator begins
// with what was in use, freshly placed.
func Try(s *snapshot.Snapshot, device int, t *Trial) (*Result, error) {
	opts, err := caching.ParseOptions(t.Conf)
	if err != nil {
		return nil, err
	}
	return run(s, device, t, opts)
}

// Capacity bounds what the allocator could reserve when it ran out of memory in
// the recording: at least low, less than high. ok is false where it never did.
func Capacity(h *snapshot.History) (low, high int64, ok bool) {
	for i := range h.OOMs {
		o := &h.OOMs[i]
		l, u := o.Moment.Reserved, o.Moment.Reserved+segmentFor(o.Tried)
		if o.DeviceFree < o.Tried {
			// The device itself was full: it had exactly this left.
			l += o.DeviceFree
			u = l + 1
		}
		if !ok || u < high {
			high = u
		}
		low, ok = max(low, l), true
	}
	low = max(low, h.Reserved.Bytes)
	return low, max(high, low+1), ok
}

// segmentFor is the segment that a block of so many bytes needs, at the default
// settings (get_allocation_size in c10/cuda/CUDACachingAllocator.cpp).
func segmentFor(size int64) int64 {
	switch {
	case size <= 1<<20:
		return 2 << 20
	case size < 10<<20:
		return 20 << 20
	}
	return (size + 2<<20 - 1) / (2 << 20) * (2 << 20)
}

// A runner holds one replay.
type runner struct {
	s    *snapshot.Snapshot
	t    *Trial
	a    *caching.Allocator
	r    *Result
	live map[int64]held
	now  int64 // allocated
}

type held struct {
	block  caching.Block
	freed  bool // asked for; not usable yet
	stream int
}

func run(s *snapshot.Snapshot, device int, t *Trial, opts caching.Options) (*Result, error) {
	_, begin, err := s.At(device, -1)
	if err != nil {
		return nil, err
	}
	x := &runner{s: s, t: t, r: &Result{}, live: map[int64]held{}}
	x.a = caching.New(caching.Config{Options: opts, Capacity: t.Capacity})
	if err := x.refill(begin); err != nil {
		return nil, err
	}
	x.r.PeakAllocated, x.r.PeakReserved = x.now, x.reserved()
	if err := x.trace(s.Trace(device)); err != nil {
		return nil, err
	}
	return x.r, nil
}

func (x *runner) reserved() int64 { return x.a.Stats().ReservedBytes.All.Current }

// stream numbers the CUDA streams, the default one 0.
func (x *runner) stream(cuda int64) int {
	if cuda == 0 || x.t.OneStream {
		return 0
	}
	return 1 + slices.Index(x.s.Streams, cuda)
}

func (x *runner) trace(t *snapshot.Trace) error {
	last := snapshot.Alloc
	for i, e := range t.All() {
		if x.t.Until > 0 && i > x.t.Until {
			break
		}
		if x.t.Gone != nil && i == x.t.GoneAt {
			if err := x.giveBack(); err != nil {
				return err
			}
		}
		if err := x.event(i, e, last); err != nil {
			return err
		}
		last = e.Action
		x.raise(0)
	}
	return nil
}

// raise counts what is there in the peaks, with so many more bytes allocated.
func (x *runner) raise(more int64) {
	x.r.PeakAllocated = max(x.r.PeakAllocated, x.now+more)
	x.r.PeakReserved = max(x.r.PeakReserved, x.reserved())
}

func (x *runner) event(i int, e *snapshot.Event, last snapshot.Action) error {
	switch e.Action {
	case snapshot.Alloc:
		if old, ok := x.live[e.Addr]; ok { // its free was not recorded
			if err := x.free(e.Addr, old, true); err != nil {
				return err
			}
		}
		stream := x.stream(x.s.Streams[e.Stream])
		b, err := x.a.Malloc(x.asks(i, e), stream)
		if oom := (*caching.OOM)(nil); errors.As(err, &oom) {
			x.r.Failed = append(x.r.Failed, Failure{Event: i, OOM: oom})
			return nil
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		x.live[e.Addr] = held{block: b, stream: stream}
		x.now += x.a.Size(b)
	case snapshot.FreeRequested, snapshot.FreeCompleted:
		h, ok := x.live[e.Addr]
		if !ok {
			return nil
		}
		return x.free(e.Addr, h, e.Action == snapshot.FreeCompleted)
	case snapshot.SegmentFree, snapshot.SegmentUnmap:
		// The program emptied the cache, or an allocation was about to fail. Only
		// the first happens under other settings too.
		if last != e.Action && x.emptied(e) {
			x.a.EmptyCache()
		}
	case snapshot.OOM:
		b, err := x.a.Malloc(x.asks(i, e), x.stream(x.s.Streams[e.Stream]))
		if oom := (*caching.OOM)(nil); errors.As(err, &oom) {
			x.r.Failed = append(x.r.Failed, Failure{i, oom, true})
			return nil
		}
		if err != nil {
			return fmt.Errorf("event %d: %w", i, err)
		}
		// The recording goes on without it.
		x.raise(x.a.Size(b))
		return x.a.Free(b)
	}
	return nil
}

// asks is what an event asks for in this trial.
func (x *runner) asks(i int, e *snapshot.Event) int64 {
	if x.t.Request != nil {
		return x.t.Request(i, e)
	}
	return e.Size
}

// giveBack frees what the trial is to do without.
func (x *runner) giveBack() error {
	for _, addr := range slices.Sorted(maps.Keys(x.t.Gone)) {
		if h, ok := x.live[addr]; ok {
			if err := x.free(addr, h, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// free gives a block back, in two halves: what was asked to go no longer counts,
// but is of use only when other streams are done with it.
func (x *runner) free(addr int64, h held, completed bool) error {
	if !h.freed {
		x.now -= x.a.Size(h.block)
		h.freed = true
		x.live[addr] = h
	}
	if !completed {
		return nil
	}
	delete(x.live, addr)
	return x.a.Free(h.block)
}

// emptied says whether the program gave cached memory back itself.
func (x *runner) emptied(e *snapshot.Event) bool {
	for _, f := range x.s.Stack(e.Stack) {
		if n := x.s.Frames[f].Name; n == "empty_cache" || n == "THCPModule_emptyCache(_object*, _object*)" {
			return true
		}
	}
	return false
}
