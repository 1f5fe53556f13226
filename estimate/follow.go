package estimate

import (
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A follower replays a run through the allocator while the run is still being simulated, on another core. A run
// of a few thousand events is over before it would begin.
type follower struct {
	replay *caching.Replayer
	parts  chan timeline.Part // nil until there is something to follow
	group  group
}

func follow(cfg caching.Config) *follower {
	return &follower{replay: caching.NewReplayer(cfg)}
}

// take is for eager.Options.Full.
func (f *follower) take(p timeline.Part) {
	if f.parts == nil {
		f.parts = make(chan timeline.Part, 1024)
		f.group.do(func() {
			defer func() {
				for range f.parts { // what comes after a panic is only taken off
				}
			}()
			for p := range f.parts {
				f.replay.Take(p)
			}
		})
	}
	f.parts <- p
}

// end waits for what was taken to be replayed. It must be called once.
func (f *follower) end() {
	if f.parts != nil {
		close(f.parts)
		f.group.end()
	}
}
