package caching

import (
	"errors"
	"fmt"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// A Moment is what the allocator holds just after an event, in bytes.
type Moment struct {
	Event     int   // index into the timeline's events; -1 before the first
	Requested int64 // sum of live requests
	Allocated int64 // the blocks that serve them: memory_allocated
	Reserved  int64 // the segments these lie in: memory_reserved
}

// A Span is one phase of one step: events that follow each other and share both.
// A step that accumulates gradients has several spans of a phase.
type Span struct {
	Step        int32
	Phase       timeline.Phase
	First, Last int    // indices of its first and last event
	End         Moment // after its last event
	// The largest allocated and reserved bytes within the span, what was held
	// at its beginning included.
	PeakAllocated, PeakReserved Moment
}

// A Result is what replaying a timeline came to.
type Result struct {
	PeakAllocated Moment // where memory_allocated is first largest
	PeakReserved  Moment // where memory_reserved is first largest
	End           Moment
	Spans         []Span
	Stats         Stats

	// Dropped are the plans that were given up because the memory for their
	// workspace could not be had: see timeline.Event.Plan. In order of giving up.
	Dropped []int32

	// OOM is set when the run did not survive; OOMEvent is the Alloc that failed.
	// Nothing after it was replayed.
	OOM      *OOM
	OOMEvent int

	// Allocator is as the replay left it: its segments, and its trace if recorded.
	Allocator *Allocator
}

// Replay runs a timeline through an allocator. Running out of memory is a result,
// not an error; a timeline that breaks its own rules is an error. A request that can be done without
// is left out when there is no memory for it, after the allocator has given its cached blocks back in vain.
func Replay(t *timeline.Timeline, cfg Config) (*Result, error) {
	if err := t.Check(); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	a := New(cfg)
	r := &Result{Allocator: a, OOMEvent: -1}
	start := Moment{Event: -1}
	r.PeakAllocated, r.PeakReserved, r.End = start, start, start
	live := make([]Block, t.Blocks)
	dropped := map[int32]bool{}
	var span *Span
	for i := range t.Events {
		e := &t.Events[i]
		if span == nil || span.Step != e.Step || span.Phase != e.Phase {
			r.Spans = append(r.Spans, Span{Step: e.Step, Phase: e.Phase, First: i, PeakAllocated: r.End, PeakReserved: r.End})
			span = &r.Spans[len(r.Spans)-1]
		}
		span.Last = i
		traced := len(a.trace)
		switch e.Kind {
		case timeline.Alloc:
			if e.Plan > 0 && dropped[e.Plan] {
				break
			}
			b, err := a.Malloc(e.Bytes, int(e.Stream))
			if err != nil {
				var oom *OOM
				if !errors.As(err, &oom) {
					return nil, fmt.Errorf("replay: event %d: %w", i, err)
				}
				if e.Plan > 0 {
					dropped[e.Plan] = true
					r.Dropped = append(r.Dropped, e.Plan)
					break
				}
				r.OOM, r.OOMEvent = oom, i
			}
			live[e.Block] = b
		case timeline.Free:
			if err := a.Free(live[e.Block]); err != nil {
				return nil, fmt.Errorf("replay: event %d: %w", i, err)
			}
		}
		for j := traced; j < len(a.trace); j++ {
			a.trace[j].Event = int32(i)
		}
		now := Moment{i, a.stats.RequestedBytes.All.Current, a.stats.AllocatedBytes.All.Current, a.stats.ReservedBytes.All.Current}
		if now.Allocated > span.PeakAllocated.Allocated {
			span.PeakAllocated = now
			if now.Allocated > r.PeakAllocated.Allocated {
				r.PeakAllocated = now
			}
		}
		if now.Reserved > span.PeakReserved.Reserved {
			span.PeakReserved = now
			if now.Reserved > r.PeakReserved.Reserved {
				r.PeakReserved = now
			}
		}
		r.End, span.End = now, now
		if r.OOM != nil {
			break
		}
	}
	r.Stats = a.Stats()
	return r, nil
}
