package caching

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// TestReplayDropsPlans checks that requests which can be done without give way when memory runs out,
// for good, and that all others still end the run.
func TestReplayDropsPlans(t *testing.T) {
	const unit = 100 << 20
	run := func(plans bool) *timeline.Log {
		l := new(timeline.Log)
		alloc := func(bytes int64, plan int32) int32 {
			if !plans {
				plan = 0
			}
			return l.Alloc(timeline.Request{Bytes: bytes, Layer: timeline.NoLayer}, plan)
		}
		free := func(b int32) { l.Free(b, timeline.NoLayer) }
		alloc(2*unit, 0)
		free(alloc(4*unit, 7)) // does not fit
		free(alloc(unit, 8))   // fits
		free(alloc(unit, 7))   // would fit, but the plan was given up
		free(alloc(4*unit, 9))
		return l
	}
	r, err := NewReplayer(Config{Limit: 5 * unit}).Finish(run(true))
	must.OK(t, err)
	if r.OOM != nil || !slices.Equal(r.Dropped, []int32{7, 9}) {
		t.Errorf("out of memory %v, dropped %v, want plans 7 and 9 dropped", r.OOM, r.Dropped)
	}
	if r.PeakAllocated.Allocated != 3*unit || r.Stats.AllocRetries != 2 || r.Stats.OOMs != 2 {
		t.Errorf("allocated %d, %d retries, %d failures, want %d, 2 and 2", r.PeakAllocated.Allocated, r.Stats.AllocRetries,
			r.Stats.OOMs, 3*unit)
	}
	if r, err = NewReplayer(Config{Limit: 5 * unit}).Finish(run(false)); err != nil {
		t.Fatal(err)
	}
	if r.OOM == nil || r.OOMEvent != 1 || len(r.Dropped) != 0 {
		t.Errorf("out of memory %v at %d, want it at event 1", r.OOM, r.OOMEvent)
	}
}

// TestReplaySearches checks that a search takes what a cached block serves or the device has room for, and is left out
// alone where neither does.
func TestReplaySearches(t *testing.T) {
	const unit = 100 << 20
	l := new(timeline.Log)
	take := func(bytes int64, plan int32) int32 {
		return l.Alloc(timeline.Request{Bytes: bytes, Layer: timeline.NoLayer}, plan)
	}
	give := func(block int32) { l.Free(block, timeline.NoLayer) }
	kept := take(unit, 0)
	give(take(3*unit, 0))
	give(take(3*unit, timeline.Searching)) // in what is cached
	l.Release(timeline.NoLayer)
	give(take(4*unit, timeline.Searching)) // the device has so much
	l.Release(timeline.NoLayer)
	give(take(5*unit, timeline.Searching)) // and not so much
	give(kept)
	for limit, want := range map[int64]int{0: 1, 5 * unit: 1, 4 * unit: 2} {
		cfg := Config{Room: 5 * unit, Limit: limit}
		r, err := NewReplayer(cfg).Finish(l)
		must.OK(t, err)
		var taken []int64
		for e := range r.Trace() {
			if e.Action == AllocBlock {
				taken = append(taken, e.Bytes)
			}
		}
		all := []int64{unit, 3 * unit, 3 * unit, 4 * unit}
		if r.OOM != nil || r.Unsearched != want || !slices.Equal(taken, all[:len(all)+1-want]) {
			t.Errorf("limited to %d: %d searches left out, %v taken, %v", limit, r.Unsearched, taken, r.OOM)
		}
		large, survives := LargeOf(l, cfg.Options).Reserved(cfg)
		if most := (all[len(all)-want] + unit); !survives || large != max(4*unit, most) {
			t.Errorf("limited to %d: %d reserved by large requests, %v", limit, large, survives)
		}
	}
}

// TestReplayOtherWorkspaces checks that requests with a plan take the size that is given for it, and no others do.
func TestReplayOtherWorkspaces(t *testing.T) {
	const unit = 100 << 20
	l := new(timeline.Log)
	for plan := range int32(4) {
		l.Alloc(timeline.Request{Bytes: unit, Layer: timeline.NoLayer}, plan)
	}
	for b := range int32(4) {
		l.Free(b, timeline.NoLayer)
	}
	for _, c := range []struct {
		workspaces []int64
		want       int64
	}{{nil, 4 * unit}, {[]int64{5 * unit}, 8 * unit}, {[]int64{0, 2 * unit}, 4 * unit}, {[]int64{0, 0, 0}, unit}} {
		r, err := NewReplayer(Config{Workspaces: c.workspaces}).Finish(l)
		must.OK(t, err)
		if r.PeakAllocated.Allocated != c.want || r.End.Allocated != 0 {
			t.Errorf("%v: %d allocated, want %d; %d at the end", c.workspaces, r.PeakAllocated.Allocated, c.want,
				r.End.Allocated)
		}
	}
	if _, err := NewReplayer(Config{Workspaces: []int64{maxRequest + 1}}).Finish(l); err == nil {
		t.Error("a workspace that no memory holds is accepted")
	}
}

// Rising addresses rise, and begin again before they are too large.
func TestRising(t *testing.T) {
	address := Rising()
	a, b := address(2<<20), address(20<<20)
	if b != a+2<<20 {
		t.Errorf("%#x follows %#x", b, a)
	}
	for range 1 << 13 {
		if a = address(maxRequest); a < 0 || a > 1<<62 {
			t.Fatalf("a segment at %#x", a)
		}
	}
}

// TestReplayCaught checks that a request without memory ends an attempt where the program goes on, and the run where it
// does not: what the attempt did from there on did not happen.
func TestReplayCaught(t *testing.T) {
	const unit = 100 << 20
	for _, caught := range []bool{true, false} {
		l := new(timeline.Log)
		take := func(bytes int64) int32 {
			return l.Alloc(timeline.Request{Bytes: bytes, Layer: timeline.NoLayer}, 0)
		}
		give := func(block int32) { l.Free(block, timeline.NoLayer) }
		weights, fails, later := take(unit), take(5*unit), take(2*unit)
		if caught {
			l.Caught(timeline.NoLayer)
		}
		give(fails)
		give(later)
		stands := take(3 * unit)
		give(stands)
		give(weights)
		r, err := NewReplayer(Config{Capacity: 5 * unit}).Finish(l)
		must.OK(t, err)
		if !caught {
			if r.OOM == nil || r.OOMEvent != 1 || r.Attempts != 0 {
				t.Errorf("without a handler: %v at %d, %d attempts", r.OOM, r.OOMEvent, r.Attempts)
			}
			continue
		}
		if r.OOM != nil || r.Attempts != 1 || r.Stands.Reserved != 4*unit || r.PeakReserved.Reserved != 4*unit {
			t.Errorf("with a handler: %v, %d attempts, %d stand, %d reserved", r.OOM, r.Attempts, r.Stands.Reserved,
				r.PeakReserved.Reserved)
		}
	}
}
