package estimate

import (
	"github.com/memestimate/memestimate/estimate/caching"
	"github.com/memestimate/memestimate/estimate/timeline"
)

// spareBytes is what an upper bound leaves for pools of small blocks, and for what the context differs by.
const spareBytes = 18 << 20

// A room is what an upper bound leaves above the most that a run reserves, beside spareBytes. docs/ACCURACY.md says how the shares were
// found, and how often the bound holds.
type room struct {
	share float64 // of what is reserved: requests that are a little larger than simulated
	// One request that no cached block serves, where a measured run has one: a share of the largest request, and of what
	// is reserved at most.
	request, limit float64
}

// A training step has many large requests; an inference has few, which its peak consists of. A recording has the requests as
// they are: what is left is how convolutions of other shapes than measured run.
var (
	trainRoom = room{share: 0.01, request: 0.75, limit: 0.06}
	inferRoom = room{share: 0.01, request: 0.25, limit: 0.075}

	recordedRoom = room{share: 0.01}
	convRoom     = room{share: 0.01, request: 0.25, limit: 0.015} // a recording in which cuDNN may choose otherwise
)

func roomOf(infer bool) room {
	if infer {
		return inferRoom
	}
	return trainRoom
}

// upperBound is the device memory that a run should not exceed. Requests follow from PyTorch's source; what
// cannot be known is which workspaces cuDNN takes, where the driver puts segments, and when a program lets go of its
// tensors. All three decide which cached blocks serve which requests, so that one that does not fit by 1 % costs a
// segment. So the run is replayed with other choices of workspaces, those of single trees of the forests that stand for
// cuDNN's choice: where all agree there is nothing to replay, and where they do not, the shape is unlike what was measured.
// And it is replayed with segments at rising addresses. The bound is the most that any of these reserves, and room for
// a request that no cached block serves.
func upperBound(s *Simulation, cfg caching.Config, spare room) int64 {
	var c crew
	most := make([]int64, len(s.Run.Workspaces)+1)
	large := caching.LargeOf(s.Run.Log, cfg.Options)
	replay := func(k int, cfg caching.Config) {
		c.do(func() {
			// A choice that does not survive a limit says nothing of one that does.
			if bytes, ok := large.Reserved(cfg); ok {
				most[k] = bytes + s.Replay.Stats.ReservedBytes.Small.Peak
			}
		})
	}
	cfg.Record = false
	for k, sizes := range s.Run.Workspaces {
		other := cfg
		other.Workspaces = sizes
		replay(k, other)
	}
	cfg.Address = caching.Rising()
	replay(len(most)-1, cfg)
	c.end()

	reserved := s.Peak.Reserved
	above := spareBytes + int64(spare.share*float64(reserved)+min(spare.request*float64(largestRequest(s.Run.Log)), spare.limit*float64(reserved)))
	for _, r := range most {
		reserved = max(reserved, r)
	}
	return s.Context + reserved + above
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
