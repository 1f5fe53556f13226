package estimate

import (
	"cmp"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// scriptBytes is what kernels that TorchScript compiles for a GPU take outside the allocator, at most: 50 to 100 MiB
// in measured runs.
const scriptBytes = 100 << 20

// spareBytes is what an upper bound leaves for pools of small blocks, and for what the context differs by.
const spareBytes = 18 << 20

// A headroom is what an upper bound leaves above the most that a run reserves, in addition to spareBytes.
// docs/ACCURACY.md says how the shares were found, and how often the bound holds.
type headroom struct {
	share float64 // of what is reserved: requests that are a little larger than simulated
	bytes int64   // outside the allocator
	// One request that no cached block serves, where a measured run has one: a share of the largest request, and of
	// what is reserved at most.
	request, limit float64
}

// A training step has many large requests; an inference has few, which its peak consists of. A recording lacks none.
var (
	trainHeadroom = headroom{share: 0.01, request: 0.75, limit: 0.06}
	inferHeadroom = headroom{share: 0.01, request: 0.25, limit: 0.075}

	recordedHeadroom = headroom{share: 0.01}
)

func headroomOf(infer bool) headroom {
	if infer {
		return inferHeadroom
	}
	return trainHeadroom
}

// upperBound is the device memory that a run should not exceed. Requests follow from PyTorch's source; what cannot be
// known is which workspaces cuDNN takes, where the driver puts segments, and when a program lets go of its tensors.
// All three decide which cached blocks serve which requests, so that one that does not fit by 1 % costs a segment. So
// the run is replayed with other choices of workspaces, those of single trees of the forests that stand for cuDNN's
// choice: where all agree there is nothing to replay, and where they do not, the shape is unlike what was measured.
// And it is replayed with segments at rising addresses. The bound is the most that any of these reserves, and room
// for a request that no cached block serves.
//
// A recording has its requests as they are, and what is left to doubt is named: it is replayed with scattered
// addresses too, and a second log, in which everything that is guessed is at its most, with the likely workspaces of
// convolutions and with one of them at its most, each in its turn of those that would need the most memory.
// docs/ACCURACY.md has what this rests on.
func upperBound(s *Simulation, cfg caching.Config, spare headroom) int64 {
	var replays group
	log := s.Run.Log
	large := caching.LargeOf(log, cfg.Options)
	var mu sync.Mutex
	reserved := s.Peak.Reserved
	replay := func(large *caching.LargeRequests, cfg caching.Config) {
		replays.do(func() {
			// A choice that does not survive a limit says nothing of one that does.
			if bytes, ok := large.Reserved(cfg); ok {
				mu.Lock()
				defer mu.Unlock()
				reserved = max(reserved, bytes+s.Replay.Stats.ReservedBytes.Small.Peak)
			}
		})
	}
	for _, sizes := range s.Run.Workspaces {
		other := cfg
		other.Workspaces = sizes
		replay(large, other)
	}
	addresses := []func(int64) int64{caching.Rising()}
	if s.Recorded != nil {
		for seed := range scatteredSeeds {
			addresses = append(addresses, caching.Scattered(seed+1))
		}
		if s.Recorded.Doubtful {
			most := caching.LargeOf(s.Recorded.AtMost(), cfg.Options)
			s.doubts.engine = doubtedEngine(s.Recorded.Convolutions, most)
			for _, sizes := range oneAtMost(s.Recorded.Convolutions, most) {
				other := cfg
				other.Workspaces = sizes
				replay(most, other)
			}
		}
	}
	for _, address := range addresses {
		other := cfg
		other.Address = address
		replay(large, other)
	}
	replays.end()
	above := spareBytes + spare.bytes + int64(spare.share*float64(s.Peak.Reserved)+
		min(spare.request*float64(largestRequest(log)), spare.limit*float64(s.Peak.Reserved)))
	return s.Context + reserved + above
}

// What a recording's bound tries: so many convolutions at their most by each of two measures, one at a time, and so
// many orders of addresses.
const (
	mostReplays    = 16
	scatteredSeeds = uint64(4)
)

// oneAtMost returns the workspaces of convolutions, by plan less 1: all of them likely ones, then each time one at
// its most, of those that would need the most memory with it, and of those that would grow the most: late in a
// backward pass, where little is live, a workspace that no cached block holds costs a segment all the same.
func oneAtMost(plans []kernels.ConvPlan, run *caching.LargeRequests) (all [][]int64) {
	likely, most := make([]int64, len(plans)), make([]int64, len(plans))
	for i := range plans {
		likely[i], most[i] = plans[i].Bytes, plans[i].Most
	}
	all = append(all, likely)
	needs := run.Needs(most)
	order := make([]int, 0, len(plans))
	for i := range plans {
		if most[i] > likely[i] {
			order = append(order, i)
		}
	}
	tried := make([]bool, len(plans))
	for _, by := range []func(i int) int64{
		func(i int) int64 { return needs[i] },
		func(i int) int64 { return most[i] - likely[i] },
	} {
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(by(b), by(a)) })
		for _, i := range order[:min(len(order), mostReplays)] {
			if tried[i] {
				continue
			}
			tried[i] = true
			sizes := slices.Clone(likely)
			sizes[i] = most[i]
			all = append(all, sizes)
		}
	}
	return all
}

// largestRequest returns the bytes of the largest request once the model is loaded: an activation, a gradient, an
// optimizer's temporary or a workspace.
func largestRequest(l *timeline.Log) (largest int64) {
	loaded := false
	for s := range l.Stretches {
		for _, e := range s.Entries {
			switch {
			case e.Kind() == timeline.Mark:
				loaded = e.Phase() != timeline.Load
			case e.Kind() == timeline.Alloc && loaded:
				largest = max(largest, e.Bytes())
			}
		}
	}
	return largest
}
