package replay

import (
	"errors"
	"fmt"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/snapshot"
)

// rebuild brings the allocator into the state in which the recording began. One
// segment after the other is requested whole and cut into its blocks; free space
// is filled as well, so that it serves nothing else, and freed at the end.
func (x *runner) rebuild(begin []snapshot.Segment) error {
	x.asked = begin
	var filler []caching.Block
	for i := range begin {
		g := &begin[i]
		stream := x.stream(g.Stream)
		if !g.Small && !g.Expandable && len(g.Blocks) != 1 {
			whole, err := x.a.Malloc(g.Total, stream)
			if err == nil {
				err = x.a.Free(whole)
			}
			if err != nil {
				return fmt.Errorf("segment at %#x: %w", uint64(g.Addr), err)
			}
		}
		for k := range g.Blocks {
			b := &g.Blocks[k]
			for _, size := range pieces(g, b) {
				block, err := x.a.Malloc(size, stream)
				if err != nil {
					return fmt.Errorf("block at %#x: %w", uint64(b.Addr), err)
				}
				if x.a.Size(block) != size {
					x.doubt("the block at %#x has %d bytes, %d in the recording", uint64(b.Addr), x.a.Size(block), size)
				}
				if b.State == snapshot.Inactive {
					filler = append(filler, block)
				} else {
					x.keep(b, block, stream)
				}
			}
		}
	}
	for _, b := range filler {
		if err := x.a.Free(b); err != nil {
			return err
		}
	}
	return nil
}

// pieces are the requests that fill a block: free space of the small pool may be
// more than one request of that pool can be.
func pieces(g *snapshot.Segment, b *snapshot.Block) []int64 {
	const most = 1 << 20
	if !g.Small || b.Size <= most {
		return []int64{b.Size}
	}
	var out []int64
	for left := b.Size; left > 0; left -= most {
		out = append(out, min(left, most))
	}
	return out
}

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
