package caching

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/simulate/timeline"
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
	Step  int32
	Phase timeline.Phase
	End   Moment // after its last event
	// The largest allocated and reserved bytes within the span, what was held
	// at its beginning included.
	PeakAllocated, PeakReserved Moment
}

// A Result is what replaying a run came to. Running out of memory is a result, not an error.
type Result struct {
	PeakAllocated Moment // where memory_allocated is first largest
	PeakReserved  Moment // where memory_reserved is first largest
	End           Moment
	Spans         []Span
	Stats         Stats

	// Dropped are the plans that were given up because the memory for their
	// workspace could not be had: see timeline.Event.Plan. In order of giving up.
	Dropped []int32

	Unsearched int // requests of a timeline.Searching that there was no memory for

	// Attempts are how often the program was told that there is no memory and went on, and Stands how far the run rose
	// since it last was: see timeline.Log.Caught. A request that fails before such an event ends its attempt there.
	Attempts int
	Stands   struct{ Allocated, Reserved int64 }

	// OOM is set when the run did not survive; OOMEvent is the Alloc that failed.
	// Nothing after it was replayed.
	OOM      *OOM
	OOMEvent int

	// Allocator is as the replay left it, with its trace if recorded; nil once who holds the Result gave it up.
	Allocator *Allocator

	cfg   Config          // as it was given
	again func(*Replayer) // replays the same run
}

// A Replayer replays a run, a simulated one while it is still being written. A request that can be done without is left
// out when there is no memory for it, after the allocator has given its cached blocks back in vain.
type Replayer struct {
	a       *Allocator
	r       *Result
	event   int                    // index of the one that comes
	live    timeline.Chunks[Block] // by the timeline's blocks
	dropped map[int32]bool
	caught  []int // events that end an attempt, those to come
	failed  bool  // a request of this attempt failed: what the recording has of it from there on did not happen
	span    Span  // the last one
	begun   bool
	err     error
}

// NewReplayer returns a Replayer through a new allocator.
func NewReplayer(cfg Config) *Replayer {
	p := &Replayer{a: New(cfg)}
	p.r = &Result{Allocator: p.a, OOMEvent: -1, cfg: cfg}
	start := Moment{Event: -1}
	p.r.PeakAllocated, p.r.PeakReserved, p.r.End = start, start, start
	return p
}

// Take replays the next part of a Log: all of them, in order, up to any one. The rest is for Finish.
func (p *Replayer) Take(part timeline.Part) {
	if !p.stopped() {
		p.run(&timeline.Stretch{Entries: part.Entries}, part.Plans)
	}
}

// Finish replays what Take was not given of a Log, and says what all of it came to. The Replayer must not be used
// afterwards.
func (p *Replayer) Finish(l *timeline.Log) (*Result, error) {
	p.r.again = func(p *Replayer) { p.rest(l) }
	p.rest(l)
	if p.err != nil {
		return nil, p.err
	}
	p.leave()
	p.r.Stats = p.a.Stats()
	return p.r, nil
}

// rest replays what was not taken of a Log.
func (p *Replayer) rest(l *timeline.Log) {
	p.caught = l.Attempts()
	taken := p.event
	for s := range l.Stretches {
		if p.stopped() {
			break
		}
		s.Entries = s.Entries[min(max(taken-s.First, 0), len(s.Entries)):]
		p.run(s, l.Plans())
	}
}

func (p *Replayer) run(s *timeline.Stretch, plans []timeline.Planned) {
	block := int32(p.live.Len()) - s.Shift // as the Log wrote it
	at, _ := slices.BinarySearchFunc(plans, block, func(a timeline.Planned, b int32) int { return cmp.Compare(a.Block, b) })
	for _, e := range s.Entries {
		switch e.Kind() {
		case timeline.Alloc:
			plan := int32(0)
			if at < len(plans) && plans[at].Block == block {
				plan = plans[at].Plan
				at++
			}
			p.alloc(e.Bytes(), e.Stream(), plan)
			block++
		case timeline.Free:
			p.free(s.Block(e))
		case timeline.Mark:
			p.enter(e.Step()+s.Later, e.Phase())
		case timeline.Release:
			p.release()
		}
		if p.done(); p.stopped() {
			return
		}
	}
}

// enter says which phase of which step the next events are of.
func (p *Replayer) enter(step int32, phase timeline.Phase) {
	if p.begun && p.span.Step == step && p.span.Phase == phase {
		return
	}
	p.leave()
	p.span = Span{Step: step, Phase: phase, PeakAllocated: p.r.End, PeakReserved: p.r.End}
	p.begun = true
}

// leave ends a span.
func (p *Replayer) leave() {
	if p.begun {
		p.span.End = p.r.End
		p.r.Spans = append(p.r.Spans, p.span)
	}
}

// release gives cached blocks back, and ends an attempt where the program is told so.
func (p *Replayer) release() {
	if !p.failed { // the request that failed gave them back
		p.a.EmptyCache()
	}
	if len(p.caught) > 0 && p.event == p.caught[0] {
		p.caught, p.failed = p.caught[1:], false
		p.r.Attempts++
		p.r.Stands.Allocated, p.r.Stands.Reserved = 0, 0
	}
}

func (p *Replayer) alloc(bytes int64, stream uint8, plan int32) {
	b := Block(none)
	if w := p.a.cfg.Workspaces; plan > 0 && int(plan) <= len(w) {
		bytes = w[plan-1]
	}
	switch {
	case p.failed, p.dropped[plan]:
	case plan == timeline.Searching && p.a.crowded(bytes, int(stream)):
		p.r.Unsearched++
	default:
		var err error
		if b, err = p.a.Malloc(bytes, int(stream)); err != nil {
			p.refused(err, plan)
		}
	}
	p.live.Add(b)
}

// refused takes note of a request that the allocator has no memory for.
func (p *Replayer) refused(err error, plan int32) {
	var oom *OOM
	switch {
	case !errors.As(err, &oom):
		p.err = fmt.Errorf("replay: event %d: %w", p.event, err)
	case plan == timeline.Searching:
		p.r.Unsearched++
	case plan > 0:
		if p.dropped == nil {
			p.dropped = map[int32]bool{}
		}
		p.dropped[plan] = true
		p.r.Dropped = append(p.r.Dropped, plan)
	case len(p.caught) > 0:
		p.failed = true
	default:
		p.r.OOM, p.r.OOMEvent = oom, p.event
	}
}

func (p *Replayer) free(block int32) {
	if err := p.a.Free(*p.live.At(int(block))); err != nil {
		p.err = fmt.Errorf("replay: event %d: %w", p.event, err)
	}
}

// done looks at what is held after an event.
func (p *Replayer) done() {
	a, r := p.a, p.r
	now := Moment{p.event, a.stats.RequestedBytes.All.Current, a.stats.AllocatedBytes.All.Current,
		a.stats.ReservedBytes.All.Current}
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
	r.Stands.Allocated, r.Stands.Reserved = max(r.Stands.Allocated, now.Allocated), max(r.Stands.Reserved, now.Reserved)
	r.End = now
	p.event++
}

// stopped reports whether the run is over before its end.
func (p *Replayer) stopped() bool { return p.r.OOM != nil || p.err != nil }
