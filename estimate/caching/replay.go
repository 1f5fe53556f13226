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
	p := newReplayer(cfg)
	for i := range t.Events {
		e := &t.Events[i]
		p.enter(e.Step, e.Phase)
		switch e.Kind {
		case timeline.Alloc:
			p.alloc(e.Bytes, e.Stream, e.Plan)
		case timeline.Free:
			p.free(e.Block)
		}
		if p.done(); p.stopped() {
			break
		}
	}
	return p.result()
}

// ReplayLog is Replay of a simulated run.
func ReplayLog(l *timeline.Log, cfg Config) (*Result, error) {
	p := newReplayer(cfg)
	block := int32(0)
	for s := range l.Stretches {
		for _, e := range s.Entries {
			switch e.Kind() {
			case timeline.Alloc:
				p.alloc(e.Bytes(), 0, l.Plan(block))
				block++
			case timeline.Free:
				p.free(s.Block(e))
			case timeline.Mark:
				p.enter(e.Step()+s.Later, e.Phase())
			}
			if p.done(); p.stopped() {
				return p.result()
			}
		}
	}
	return p.result()
}

// A replayer takes the events of a run one by one.
type replayer struct {
	a       *Allocator
	r       *Result
	event   int                    // index of the one that comes
	live    timeline.Chunks[Block] // by the timeline's blocks
	dropped map[int32]bool
	span    Span // the last one
	begun   bool
	traced  int // entries of the trace that know their event
	err     error
}

func newReplayer(cfg Config) *replayer {
	p := &replayer{a: New(cfg)}
	p.r = &Result{Allocator: p.a, OOMEvent: -1}
	start := Moment{Event: -1}
	p.r.PeakAllocated, p.r.PeakReserved, p.r.End = start, start, start
	return p
}

// enter says which phase of which step the next events are of.
func (p *replayer) enter(step int32, phase timeline.Phase) {
	if p.begun && p.span.Step == step && p.span.Phase == phase {
		return
	}
	p.leave()
	p.span = Span{Step: step, Phase: phase, First: p.event, PeakAllocated: p.r.End, PeakReserved: p.r.End}
	p.begun = true
}

// leave ends a span.
func (p *replayer) leave() {
	if p.begun {
		p.span.Last, p.span.End = p.event-1, p.r.End
		p.r.Spans = append(p.r.Spans, p.span)
	}
}

func (p *replayer) alloc(bytes int64, stream uint8, plan int32) {
	b := Block(none)
	if plan == 0 || !p.dropped[plan] {
		var err error
		if b, err = p.a.Malloc(bytes, int(stream)); err != nil {
			p.refused(err, plan)
		}
	}
	p.live.Add(b)
}

// refused takes note of a request that the allocator has no memory for.
func (p *replayer) refused(err error, plan int32) {
	var oom *OOM
	switch {
	case !errors.As(err, &oom):
		p.err = fmt.Errorf("replay: event %d: %w", p.event, err)
	case plan > 0:
		if p.dropped == nil {
			p.dropped = map[int32]bool{}
		}
		p.dropped[plan] = true
		p.r.Dropped = append(p.r.Dropped, plan)
	default:
		p.r.OOM, p.r.OOMEvent = oom, p.event
	}
}

func (p *replayer) free(block int32) {
	if err := p.a.Free(*p.live.At(int(block))); err != nil {
		p.err = fmt.Errorf("replay: event %d: %w", p.event, err)
	}
}

// done looks at what is held after an event.
func (p *replayer) done() {
	a, r := p.a, p.r
	for ; p.traced < len(a.trace); p.traced++ {
		a.trace[p.traced].Event = int32(p.event)
	}
	now := Moment{p.event, a.stats.RequestedBytes.All.Current, a.stats.AllocatedBytes.All.Current, a.stats.ReservedBytes.All.Current}
	if now.Allocated > p.span.PeakAllocated.Allocated {
		p.span.PeakAllocated = now
		if now.Allocated > r.PeakAllocated.Allocated {
			r.PeakAllocated = now
		}
	}
	if now.Reserved > p.span.PeakReserved.Reserved {
		p.span.PeakReserved = now
		if now.Reserved > r.PeakReserved.Reserved {
			r.PeakReserved = now
		}
	}
	r.End = now
	p.event++
}

// stopped reports whether the run is over before its end.
func (p *replayer) stopped() bool { return p.r.OOM != nil || p.err != nil }

func (p *replayer) result() (*Result, error) {
	if p.err != nil {
		return nil, p.err
	}
	p.leave()
	p.r.Stats = p.a.Stats()
	return p.r, nil
}
