package caching

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

// Needs are the bytes live beside a planned request, other planned ones left out, and at the size asked about.
func TestNeeds(t *testing.T) {
	const unit = 32 << 20
	l := new(timeline.Log)
	l.Mark(0, timeline.Load)
	kept := l.Alloc(timeline.Request{Bytes: 3 * unit}, 0)
	l.Free(l.Alloc(timeline.Request{Bytes: unit}, 1), timeline.NoLayer)
	other := l.Alloc(timeline.Request{Bytes: unit}, 2)
	l.Alloc(timeline.Request{Bytes: 512}, 0) // of the small pool
	l.Free(l.Alloc(timeline.Request{Bytes: unit}, 3), timeline.NoLayer)
	l.Free(other, timeline.NoLayer)
	l.Free(kept, timeline.NoLayer)
	l.Free(l.Alloc(timeline.Request{Bytes: unit}, 3), timeline.NoLayer)
	got := LargeOf(l, Options{}).Needs([]int64{5 * unit, 0, 2 * unit})
	if want := []int64{8 * unit, 3 * unit, 5 * unit}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
}

// What is given back to the device serves no request after it: two of a size are two segments, one after the other.
func TestRelease(t *testing.T) {
	const unit = 32 << 20
	l := new(timeline.Log)
	l.Mark(1, timeline.Forward)
	l.Free(l.Alloc(timeline.Request{Bytes: unit, Layer: timeline.NoLayer}, 0), timeline.NoLayer)
	l.Release(timeline.NoLayer)
	l.Alloc(timeline.Request{Bytes: unit / 2, Layer: timeline.NoLayer}, 0)
	r, err := NewReplayer(Config{}).Finish(l)
	must.OK(t, err)
	if r.End.Reserved != unit/2 || r.Stats.DeviceFrees != 1 || r.Stats.DeviceAllocs != 2 {
		t.Errorf("%d reserved after %d segments and %d given back", r.End.Reserved, r.Stats.DeviceAllocs,
			r.Stats.DeviceFrees)
	}
	peak, err := PeakAllocated(l, Options{}, nil)
	if err != nil || peak != unit {
		t.Errorf("%d allocated at most, %v", peak, err)
	}
	if needs := LargeOf(l, Options{}).Needs([]int64{0}); !slices.Equal(needs, []int64{0}) {
		t.Errorf("%d without a plan", needs)
	}
}

// Scattered addresses are the seed's own, in no order, and never two ranges that overlap.
func TestScattered(t *testing.T) {
	const each = int64(1) << 39
	var orders [][]int64
	for seed := range uint64(3) {
		next, again := Scattered(seed), Scattered(seed)
		var list []int64
		for range 1000 {
			at := next(each)
			if at != again(each) {
				t.Fatalf("seed %d gives two orders", seed)
			}
			list = append(list, at)
		}
		sorted := slices.Sorted(slices.Values(list))
		for i := range sorted[1:] {
			if sorted[i] <= 0 || sorted[i+1]-sorted[i] < each {
				t.Fatalf("seed %d: segments at %d and %d overlap", seed, sorted[i], sorted[i+1])
			}
		}
		if slices.IsSorted(list) || slices.ContainsFunc(orders, func(o []int64) bool { return slices.Equal(o, list) }) {
			t.Errorf("seed %d is in order, or another seed's", seed)
		}
		orders = append(orders, list)
	}
}
