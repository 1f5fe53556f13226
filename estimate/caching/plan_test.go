package caching

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// TestReplayDropsPlans checks that requests which can be done without give way when memory runs out,
// for good, and that all others still end the run.
func TestReplayDropsPlans(t *testing.T) {
	const unit = 100 << 20
	var events []timeline.Event
	blocks := int32(0)
	alloc := func(bytes int64, plan int32) int32 {
		events = append(events, timeline.Event{Kind: timeline.Alloc, Layer: timeline.NoLayer, Block: blocks, Bytes: bytes, Plan: plan})
		blocks++
		return blocks - 1
	}
	free := func(b int32) {
		events = append(events, timeline.Event{Kind: timeline.Free, Layer: timeline.NoLayer, Block: b})
	}
	alloc(2*unit, 0)
	free(alloc(4*unit, 7)) // does not fit
	free(alloc(unit, 8))   // fits
	free(alloc(unit, 7))   // would fit, but the plan was given up
	free(alloc(4*unit, 9))
	tl := &timeline.Timeline{Events: events, Blocks: blocks}
	r, err := Replay(tl, Config{Limit: 5 * unit})
	if err != nil {
		t.Fatal(err)
	}
	if r.OOM != nil || !slices.Equal(r.Dropped, []int32{7, 9}) {
		t.Errorf("out of memory %v, dropped %v, want plans 7 and 9 dropped", r.OOM, r.Dropped)
	}
	if r.PeakAllocated.Allocated != 3*unit || r.Stats.AllocRetries != 2 || r.Stats.OOMs != 2 {
		t.Errorf("allocated %d, %d retries, %d failures, want %d, 2 and 2", r.PeakAllocated.Allocated, r.Stats.AllocRetries, r.Stats.OOMs, 3*unit)
	}
	for i := range tl.Events {
		tl.Events[i].Plan = 0
	}
	if r, err = Replay(tl, Config{Limit: 5 * unit}); err != nil {
		t.Fatal(err)
	}
	if r.OOM == nil || r.OOMEvent != 1 || len(r.Dropped) != 0 {
		t.Errorf("out of memory %v at %d, want it at event 1", r.OOM, r.OOMEvent)
	}
}
