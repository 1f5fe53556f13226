package page

import (
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// What there was no memory for is not drawn: neither a workspace that is given up nor one that a library searches in.
func TestLeftOut(t *testing.T) {
	const unit = 100 << 20
	for _, plan := range []int32{1, timeline.Searching} {
		l := new(timeline.Log)
		take := func(bytes int64, plan int32) int32 {
			return l.Alloc(timeline.Request{Bytes: bytes, Layer: timeline.NoLayer}, plan)
		}
		take(unit, 0)
		l.Free(take(4*unit, plan), timeline.NoLayer)
		l.Release(timeline.NoLayer)
		take(unit/2, 0)
		for room, want := range map[int64]int32{2 * unit: 2, 6 * unit: 3} {
			r, err := caching.Replay(l.Timeline(), caching.Config{Limit: room, Room: room, Record: true})
			must.OK(t, err)
			run := Predicted("predicted", l.Source(), r, nil)
			if err := run.Timeline.Check(); err != nil || run.Timeline.Blocks != want {
				t.Errorf("plan %d with room for %d: %d blocks, %v, wanted %d", plan, room, run.Timeline.Blocks, err, want)
			}
			if _, err := dataOf(&Page{Runs: []Run{run}}); err != nil {
				t.Errorf("plan %d with room for %d: %v", plan, room, err)
			}
		}
	}
}
