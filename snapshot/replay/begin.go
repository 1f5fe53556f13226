package replay

import (
	"errors"
	"fmt"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/snapshot"
)

// refill allocates anew what was in use when the recording began.
func (x *runner) refill(begin []snapshot.Segment) error {
	for i := range begin {
		g := &begin[i]
		stream := x.stream(g.Stream)
		for k := range g.Blocks {
			b := &g.Blocks[k]
			if b.State == snapshot.Inactive {
				continue
			}
			block, err := x.a.Malloc(b.Requested, stream)
			if oom := (*caching.OOM)(nil); errors.As(err, &oom) {
				x.r.Failed = append(x.r.Failed, Failure{Event: -1, OOM: oom})
				continue
			}
			if err != nil {
				return fmt.Errorf("block at %#x: %w", uint64(b.Addr), err)
			}
			x.keep(b, block, stream)
		}
	}
	return nil
}

// keep takes a block over that was in use when the recording began.
func (x *runner) keep(b *snapshot.Block, block caching.Block, stream int) {
	pending := b.State == snapshot.PendingFree
	x.live[b.Addr] = held{block: block, stream: stream, freed: pending}
	if !pending {
		x.now += x.a.Size(block)
	}
}
