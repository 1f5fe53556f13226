// Package oom explains why an allocation of a recording failed: what asked for
// it, what held the memory, and what would have helped, each tried by replay.
package oom

import (
	"fmt"
	"slices"
	"sort"

	"github.com/memestimate/memestimate/snapshot"
)

// A Cause is why memory ran out.
type Cause string

// The causes, in the order in which they are looked for: the first is a matter of
// the allocator, which has the memory, the later ones of the program.
const (
	Fragmentation Cause = "fragmentation" // enough is cached for the request, in too small pieces
	OtherStream   Cause = "other-stream"  // enough is cached, but other streams have it
	OtherPool     Cause = "other-pool"    // or other pools
	Pending       Cause = "pending"       // freed, but other streams may still use it
	FailedCall    Cause = "failed-call"   // a call that failed before has been left, what it made has not been freed
	Leak          Cause = "leak"          // earlier rounds of the loop left what they made, or one line keeps allocating
	Step          Cause = "step"          // the round of the loop that failed made most of it itself
	Resident      Cause = "resident"      // most was there before
)

// A Failure is a place of the program where memory ran out, once or again and
// again. Sizes are in bytes.
type Failure struct {
	First snapshot.OutOfMemory
	Count int // failures at this place
	Last  int // event of the last one

	Site   string // the line of the program that asked, see snapshot.UserSite
	Caller string
	Phase  string
	// Held are the allocations in use by line and phase, the largest first.
	Held []Holder
	// Rounds are how often the loop around had begun, 0 where there is none to be seen.
	Rounds int
	// ByAge is what was in use, by when it was made.
	ByAge Ages
	// Free are the cached pieces, by who may have them.
	Free []snapshot.FreeSpace
	// Usable adds up those that the request may have had.
	Usable snapshot.FreeSpace

	Cause    Cause
	Remedies []Remedy
	// Unsure says that a replay under the recording's own settings does not run
	// out: then no answer of a replay is certain.
	Unsure bool
	// Untried says why no remedy was tried; empty where they were.
	Untried string
}

// A Holder is a line of the program that holds memory in a phase.
type Holder struct {
	Site    string `json:"where"`
	Caller  string `json:"caller"` // the line that called it; "" where there is none
	Phase   string `json:"phase"`
	Count   int    `json:"count"`
	Bytes   int64  `json:"bytes"`
	Largest int64  `json:"largest_bytes"`
	Rounds  int    `json:"rounds"` // rounds of the loop in which it made what is still in use
	addrs   []int64
	direct  bool // it called for the memory itself, not through a module
}

// Name is the line with the one that called it.
func (h *Holder) Name() string {
	if h.Caller == "" {
		return h.Site
	}
	return h.Site + ", called by " + h.Caller
}

// Ages is what was in use, by when it was made. Sizes are in bytes.
type Ages struct {
	Before     int64 `json:"before_bytes"` // before the loop, or before the recording
	FirstRound int64 `json:"first_round_bytes"`
	Earlier    int64 `json:"earlier_rounds_bytes"` // after the first and before the last
	Now        int64 `json:"this_round_bytes"`     // in the round that failed
	FailedCall int64 `json:"failed_call_bytes"`    // of all these: made by a call that had failed before, and was left
}

// most is how many places of one recording are explained; the others are counted.
const most = 8

// Explain explains the failures of a device's recording, the first ones first.
// More is the number of failures at places that are left out.
func Explain(s *snapshot.Snapshot, h *snapshot.History) (list []Failure, more int, err error) {
	at := map[snapshot.StackID]int{}
	for i := range h.OOMs {
		o := &h.OOMs[i]
		k, ok := at[o.Stack]
		if !ok {
			if len(list) == most {
				more++
				continue
			}
			k = len(list)
			at[o.Stack] = k
			list = append(list, Failure{First: *o, Phase: s.Phase(o.Stack)})
			list[k].Site, list[k].Caller = s.UserSites(o.Stack)
		}
		list[k].Count++
		list[k].Last = o.Event
	}
	events := make([]int, len(list))
	for i := range list {
		events[i] = list[i].First.Event
	}
	err = s.Moments(h.Device, events, func(k int, live []snapshot.Live, state []snapshot.Segment) {
		f := &list[k]
		f.Free = snapshot.FreeSpaces(state)
		f.hold(s, h, live)
	})
	if err != nil {
		return nil, 0, err
	}
	for i := range list {
		list[i].judge()
		if err := list[i].remedies(s, h); err != nil {
			return nil, 0, err
		}
	}
	return list, more, nil
}

// hold finds out by whom and when what is in use was made.
func (f *Failure) hold(s *snapshot.Snapshot, h *snapshot.History, live []snapshot.Live) {
	rounds := s.Rounds(h.Device, f.First.Event)
	f.Rounds = len(rounds)
	failed := failedCalls(s, h, f.First)
	type key struct{ site, caller, phase string }
	type place struct {
		index int
		round map[int]bool
	}
	places := map[key]*place{}
	for _, l := range live {
		k := key{site: s.UserSiteOf(l), phase: s.Phase(l.Stack)}
		_, k.caller = s.UserSites(l.Stack)
		p := places[k]
		if p == nil {
			p = &place{len(f.Held), map[int]bool{}}
			places[k] = p
			f.Held = append(f.Held, Holder{Site: k.site, Caller: k.caller, Phase: k.phase, direct: k.site == s.Site(l.Stack)})
		}
		x := &f.Held[p.index]
		x.Count++
		x.Bytes += l.Size
		x.Largest = max(x.Largest, l.Size)
		x.addrs = append(x.addrs, l.Addr)
		round := sort.SearchInts(rounds, l.Event+1) // rounds that had begun
		switch {
		case round == 0:
			f.ByAge.Before += l.Size
		case round == len(rounds):
			f.ByAge.Now += l.Size
		case round == 1:
			f.ByAge.FirstRound += l.Size
		default:
			f.ByAge.Earlier += l.Size
		}
		if round > 0 {
			p.round[round] = true
			x.Rounds = len(p.round)
		}
		if slices.ContainsFunc(failed, func(c failedCall) bool { return c.made(s, l) }) {
			f.ByAge.FailedCall += l.Size
		}
	}
	slices.SortStableFunc(f.Held, func(a, b Holder) int { return int(max(min(b.Bytes-a.Bytes, 1), -1)) })
	for i := range f.Free {
		if x := &f.Free[i]; x.Serves(f.First.Stream, f.First.Tried) {
			f.Usable = *x
		}
	}
}

// A failedCall is a call in which memory had run out before, and which the
// program has left since: it runs another line of the function that called.
type failedCall struct {
	event  int
	frames []uint32 // outermost first, as far as the line that made the call
}

func failedCalls(s *snapshot.Snapshot, h *snapshot.History, now snapshot.OutOfMemory) []failedCall {
	own := s.Calls(now.Stack)
	seen := map[snapshot.StackID]bool{}
	var out []failedCall
	for i := range h.OOMs {
		o := &h.OOMs[i]
		if o.Event >= now.Event {
			break
		}
		if seen[o.Stack] {
			continue
		}
		seen[o.Stack] = true
		theirs := s.Calls(o.Stack)
		for d := range min(len(own), len(theirs)) {
			a, b := s.Frames[own[d]], s.Frames[theirs[d]]
			if own[d] == theirs[d] {
				continue
			}
			if a.File == b.File && a.Name == b.Name {
				out = append(out, failedCall{o.Event, theirs[:d+1]})
			}
			break
		}
	}
	return out
}

// made says whether an allocation was made by the call.
func (c *failedCall) made(s *snapshot.Snapshot, l snapshot.Live) bool {
	if l.Event < 0 || l.Event > c.event {
		return false
	}
	frames := s.Calls(l.Stack)
	return len(frames) >= len(c.frames) && slices.Equal(frames[:len(c.frames)], c.frames)
}

// judge finds the cause. What the allocator could have prevented comes first,
// then what the program left behind, then what it needed.
func (f *Failure) judge() {
	o := &f.First
	var stream, pool snapshot.FreeSpace
	for _, x := range f.Free {
		switch {
		case x.Serves(o.Stream, o.Tried):
		case x.Stream != o.Stream:
			stream.Bytes += x.Bytes
			stream.Largest = max(stream.Largest, x.Largest)
		default:
			pool.Bytes += x.Bytes
			pool.Largest = max(pool.Largest, x.Largest)
		}
	}
	waiting := o.Moment.Active - o.Moment.Allocated
	switch {
	case f.Usable.Bytes >= o.Tried && f.Usable.Largest < o.Tried:
		f.Cause = Fragmentation
	case stream.Bytes >= o.Tried:
		f.Cause = OtherStream
	case pool.Bytes >= o.Tried:
		f.Cause = OtherPool
	case waiting >= o.Tried:
		f.Cause = Pending
	case f.ByAge.FailedCall >= o.Tried:
		f.Cause = FailedCall
	case f.Rounds >= 4 && f.ByAge.Earlier >= o.Tried && 4*f.ByAge.Earlier >= o.Moment.Allocated:
		f.Cause = Leak
	case f.hoard():
		f.Cause = Leak
	case f.Rounds > 0 && 2*f.ByAge.Now >= o.Moment.Allocated, f.Rounds == 0:
		f.Cause = Step
	default:
		f.Cause = Resident
	}
}

// hoard says whether one line of the program made most of what is in use by
// allocating again and again, in no loop that is to be seen otherwise.
func (f *Failure) hoard() bool {
	return f.Rounds == 0 && len(f.Held) > 0 && f.Held[0].direct && f.Held[0].Count >= 8 &&
		2*f.Held[0].Bytes >= f.First.Moment.Allocated
}

// Says tells the cause in one sentence; size writes bytes for people.
func (f *Failure) Says(size func(int64) string) string {
	o := &f.First
	top := "nothing"
	if len(f.Held) > 0 {
		top = f.Held[0].Name()
	}
	switch f.Cause {
	case Fragmentation:
		return fmt.Sprintf("%s are cached for this stream and pool, but in %d pieces of at most %s", size(f.Usable.Bytes),
			f.Usable.Pieces, size(f.Usable.Largest))
	case OtherStream:
		x := f.largest(func(x snapshot.FreeSpace) bool { return x.Stream != o.Stream })
		return fmt.Sprintf("stream %#x has %s cached, in pieces of up to %s, which the request on stream %#x may not have",
			x.Stream, size(x.Bytes), size(x.Largest), o.Stream)
	case OtherPool:
		x := f.largest(func(x snapshot.FreeSpace) bool { return x.Stream == o.Stream && !x.Serves(o.Stream, o.Tried) })
		kind := "the pool of large blocks"
		if x.Small {
			kind = "the pool of small blocks"
		}
		if x.Pool != [2]int64{} {
			kind = fmt.Sprintf("the private pool (%d, %d) of a CUDA graph", x.Pool[0], x.Pool[1])
		}
		return fmt.Sprintf("%s has %s cached, in pieces of up to %s, which the request may not have", kind, size(x.Bytes),
			size(x.Largest))
	case Pending:
		return fmt.Sprintf("%s are freed, but other streams have not passed the point until which they may use "+
			"them (record_stream)", size(o.Moment.Active-o.Moment.Allocated))
	case FailedCall:
		return fmt.Sprintf("%s were made by a call in which memory had run out before, and are still held: by the "+
			"exception, whose traceback keeps the variables of the functions it left, if this runs in its handler",
			size(f.ByAge.FailedCall))
	case Leak:
		if f.Rounds == 0 {
			return fmt.Sprintf("%s made %d allocations, one after the other, and none was freed: a list that grows?", top,
				f.Held[0].Count)
		}
		return fmt.Sprintf("%s were made in earlier rounds of the loop and never freed (round %d failed): %s keeps "+
			"what each round makes", size(f.ByAge.Earlier), f.Rounds, top)
	case Step:
		if f.Rounds == 0 {
			return fmt.Sprintf("what the program made until then takes %s, most of it by %s; no loop is to be "+
				"seen in the recording", size(o.Moment.Allocated), top)
		}
		return fmt.Sprintf("round %d of the loop made %s of the %s itself, most of it by %s: it needs more than there is",
			f.Rounds, size(f.ByAge.Now), size(o.Moment.Allocated), top)
	}
	return fmt.Sprintf("%s of the %s were there before this round of the loop, most of it made by %s",
		size(f.ByAge.Before+f.ByAge.FirstRound+f.ByAge.Earlier), size(o.Moment.Allocated), top)
}

func (f *Failure) largest(of func(snapshot.FreeSpace) bool) (out snapshot.FreeSpace) {
	for _, x := range f.Free {
		if of(x) && x.Largest > out.Largest {
			out = x
		}
	}
	return out
}
