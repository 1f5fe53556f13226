package estimate

import (
	"slices"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// spareBytes is what an upper bound leaves for pools of small blocks, and for what the context differs by.
const spareBytes = 18 << 20

// A headroom is what an upper bound leaves above the most that a run reserves, in addition to spareBytes.
// docs/accuracy.md says how the shares were found, and how often the bound holds.
type headroom struct {
	share float64 // of what is reserved: requests that are a little larger than simulated
	// One request that no cached block serves, where a measured run has one: a share of the largest request, and of
	// what is reserved at most.
	request, limit float64
}

// A training step has many large requests; an inference has few, which its peak consists of.
var (
	trainHeadroom = headroom{share: 0.01, request: 0.75, limit: 0.06}
	inferHeadroom = headroom{share: 0.01, request: 0.25, limit: 0.075}
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
// docs/accuracy.md has what this rests on. Of a recording see recordedDoubts.
func upperBound(s *Simulation, cfg caching.Config, spare headroom) int64 {
	large := caching.LargeOf(s.Run.Log, cfg.Options)
	r := replays{run: s}
	rising := int64(0)
	choices := r.choices(cfg, large)
	cfg.Address = caching.Rising()
	r.under(cfg, large, &rising)
	r.end()
	above := spareBytes + int64(spare.share*float64(s.Peak.Reserved)+
		min(spare.request*float64(largestRequest(s.Run.Log)), spare.limit*float64(s.Peak.Reserved)))
	return s.Context + slices.Max(append(choices, rising)) + above
}

// replays are those of a run's requests under other choices, all at the same time.
type replays struct {
	group
	run *Simulation
}

// under replays the large requests, and sets what is reserved, no less than by the run itself: a choice that does not
// survive a limit says nothing of one that does.
func (r *replays) under(cfg caching.Config, large *caching.LargeRequests, reserved *int64) {
	*reserved = r.run.Peak.Reserved
	r.do(func() {
		if bytes, ok := large.Reserved(cfg); ok {
			*reserved = max(*reserved, bytes+r.run.Replay.Stats.ReservedBytes.Small.Peak)
		}
	})
}

// choices replays the large requests with each of the run's other workspaces.
func (r *replays) choices(cfg caching.Config, large *caching.LargeRequests) []int64 {
	reserved := make([]int64, len(r.run.Run.Workspaces))
	for i, sizes := range r.run.Run.Workspaces {
		cfg.Workspaces = sizes
		r.under(cfg, large, &reserved[i])
	}
	return reserved
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
