package caching

import (
	"errors"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/simulate/timeline"
)

// LargeRequests are those of a run that the large pool may serve, with what is given back of them. Most requests go
// to the small pool, which shares nothing with the large one: to replay these alone, under several settings, costs a
// fraction.
type LargeRequests struct {
	// Of a request twice its bytes, and its stream above; when it is given back one more than twice its index among
	// the requests; release where cached memory is given back.
	events timeline.Chunks[int64]
	plans  []timeline.Planned
	count  int32
}

// largeStream is where the stream of a request begins in its event.
const largeStream = 55

// release is the event of a timeline.Release: no request has its index.
const release = int64(-1)

// LargeOf returns the large requests of a run, repetitions of steps left out, which rarely need more. A request that
// can be done without is among them whatever its size, which Config.Workspaces may change.
func LargeOf(l *timeline.Log, o Options) *LargeRequests {
	g := &LargeRequests{}
	var index timeline.Chunks[int32] // by block: one more than its index among the requests, 0 for others
	plans, block := l.Plans(), int32(0)
	for s := range l.Stretches {
		if s.Later > 0 {
			break
		}
		for _, e := range s.Entries {
			switch e.Kind() {
			case timeline.Alloc:
				planned := len(plans) > 0 && plans[0].Block == block
				if planned {
					g.plans = append(g.plans, timeline.Planned{Block: g.count, Plan: plans[0].Plan})
					plans = plans[1:]
				}
				at := int32(0)
				if planned || o.RoundSize(e.Bytes()) > smallSize {
					g.count++
					at = g.count
					g.events.Add(2*e.Bytes() | int64(e.Stream())<<largeStream)
				}
				index.Add(at)
				block++
			case timeline.Free:
				if k := *index.At(int(e.Block())); k > 0 {
					g.events.Add(2*int64(k-1) + 1)
				}
			case timeline.Release:
				g.events.Add(release)
			}
		}
	}
	return g
}

// A replaying is what a replay works in whose answer is a number: the next one has its memory.
type replaying struct {
	Allocator
	large []Block // by request, of large ones alone
}

// replayings are of *replaying, for one replay at a time each.
var replayings = sync.Pool{New: func() any { return new(replaying) }}

// Reserved returns the most that the large pool reserves for the requests, in bytes, and whether the run survives.
func (g *LargeRequests) Reserved(cfg Config) (bytes int64, survives bool) {
	a := replayings.Get().(*replaying)
	defer replayings.Put(a)
	a.begin(cfg)
	a.large = slices.Grow(a.large[:0], int(g.count))
	live := a.large
	plans := g.plans
	var dropped map[int32]bool
	for at := range g.events.All() {
		e := *at
		if e == release {
			a.EmptyCache()
			continue
		}
		if e&1 != 0 {
			if a.Free(live[e>>1]) != nil {
				return bytes, false
			}
			continue
		}
		size, stream, plan := e&(1<<largeStream-1)>>1, int(uint8(e>>largeStream)), int32(0)
		if len(plans) > 0 && int(plans[0].Block) == len(live) {
			plan, plans = plans[0].Plan, plans[1:]
			if plan > 0 && int(plan) <= len(cfg.Workspaces) {
				size = cfg.Workspaces[plan-1]
			}
		}
		b := Block(none)
		crowded := plan == timeline.Searching && a.crowded(size, stream)
		if cfg.Options.RoundSize(size) > smallSize && !dropped[plan] && !crowded {
			var err error
			if b, err = a.Malloc(size, stream); err != nil {
				if _, ok := errors.AsType[*OOM](err); !ok || plan == 0 {
					return bytes, false
				}
				if dropped == nil {
					dropped = map[int32]bool{}
				}
				dropped[plan] = plan != timeline.Searching
			}
		}
		live = append(live, b)
		bytes = max(bytes, a.stats.ReservedBytes.All.Current)
	}
	return bytes, true
}

// PeakAllocated returns the most bytes that a run has allocated at once: what replaying it comes to, at a fraction of
// the cost. In the small pool a block is always split to what was asked for, so that the sum of the requests is enough;
// the large one is replayed. Workspaces are as in Config. The run must have no limit; an error says that it exceeds the
// most that is simulated.
func PeakAllocated(l *timeline.Log, o Options, workspaces []int64) (peak int64, err error) {
	a := replayings.Get().(*replaying)
	defer replayings.Put(a)
	a.begin(Config{Options: o})
	var live []int32             // of each block its size in the small pool, or what is not the Block of the large one
	planned := map[int32]int64{} // by block
	for _, p := range l.Plans() {
		if p.Plan > 0 && int(p.Plan) <= len(workspaces) {
			planned[p.Block] = workspaces[p.Plan-1]
		}
	}
	small := int64(0)
	for s := range l.Stretches {
		for _, e := range s.Entries {
			switch e.Kind() {
			case timeline.Alloc:
				bytes := e.Bytes()
				if len(planned) > 0 {
					if w, ok := planned[int32(len(live))-s.Shift]; ok {
						bytes = w
					}
				}
				size := int64(0)
				if bytes > 0 {
					size = o.RoundSize(bytes)
				}
				if size <= smallSize {
					small += size
					live = append(live, int32(size/minBlock))
				} else {
					b, err := a.Malloc(bytes, int(e.Stream()))
					if err != nil {
						return 0, err
					}
					live = append(live, ^int32(b))
				}
				peak = max(peak, small+a.stats.AllocatedBytes.All.Current)
			case timeline.Free:
				if v := live[s.Block(e)]; v >= 0 {
					small -= int64(v) * minBlock
				} else if err := a.Free(Block(^v)); err != nil {
					return 0, err
				}
			case timeline.Release:
				a.EmptyCache()
			}
		}
	}
	return peak, nil
}

// Needs returns, for each plan, the most bytes that its requests are live with, had they these sizes and were all
// other planned requests not there.
func (g *LargeRequests) Needs(workspaces []int64) []int64 {
	needs := make([]int64, len(workspaces))
	sizes := make([]int64, 0, g.count)
	plans, live := g.plans, int64(0)
	for at := range g.events.All() {
		e := *at
		if e == release {
			continue
		}
		if e&1 != 0 {
			live -= sizes[e>>1]
			continue
		}
		size := e & (1<<largeStream - 1) >> 1
		if len(plans) > 0 && int(plans[0].Block) == len(sizes) {
			if plan := plans[0].Plan; plan > 0 && int(plan) <= len(needs) {
				needs[plan-1] = max(needs[plan-1], live+workspaces[plan-1])
				size = 0
			}
			plans = plans[1:]
		}
		sizes = append(sizes, size)
		live += size
	}
	return needs
}
