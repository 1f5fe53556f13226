package caching

import (
	"errors"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
)

func mustMalloc(t *testing.T, a *Allocator, bytes int64) Block {
	t.Helper()
	b, err := a.Malloc(bytes, 0)
	must.OK(t, err)
	return b
}

func TestRounding(t *testing.T) {
	var o Options
	for bytes, want := range map[int64]int64{1: 512, 512: 512, 513: 1024, 1 << 20: 1 << 20, 1<<20 + 1: 1<<20 + 512} {
		if got := o.RoundSize(bytes); got != want {
			t.Errorf("round(%d) = %d, want %d", bytes, got, want)
		}
	}
	o, err := ParseOptions("roundup_power2_divisions:4")
	must.OK(t, err)
	for bytes, want := range map[int64]int64{1200: 1536, 2048: 2048, 2049: 2560, 5000: 5120, 9 << 20: 10 << 20,
		13<<20 + 1: 14 << 20, 16 << 20: 16 << 20} {
		if got := o.RoundSize(bytes); got != want {
			t.Errorf("round(%d) by 4 = %d, want %d", bytes, got, want)
		}
	}
	if got := roundDivisions(3, 8); got != 4 {
		t.Errorf("more divisions than bytes: %d, want the next power of two", got)
	}
	o, err = ParseOptions("roundup_power2_divisions:[4:8, 16:2, >:1]")
	must.OK(t, err)
	if want := [16]int64{8, 8, 8, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}; o.RoundupDivisions != want {
		t.Errorf("list form gives %v, want %v", o.RoundupDivisions, want)
	}
}

func TestSegmentSizes(t *testing.T) {
	for bytes, want := range map[int64]int64{1: 2 << 20, 1 << 20: 2 << 20, 1<<20 + 1: 20 << 20, 10<<20 - 1: 10 << 20,
		10<<20 + 1: 12 << 20, 100 << 20: 100 << 20} {
		a := New(Config{})
		mustMalloc(t, a, bytes)
		if got := a.stats.ReservedBytes.All.Current; got != want {
			t.Errorf("%d bytes reserve %d, want %d", bytes, got, want)
		}
	}
	o, err := ParseOptions("large_segment_size_mb:40")
	must.OK(t, err)
	a := New(Config{Options: o})
	mustMalloc(t, a, 3<<20)
	if got := a.stats.ReservedBytes.All.Current; got != 40<<20 {
		t.Errorf("large_segment_size_mb:40 reserves %d", got)
	}
}

// A remainder of 1 MiB stays with its block, one byte group more is split off.
func TestSplit(t *testing.T) {
	a := New(Config{})
	whole := mustMalloc(t, a, 11<<20) // a segment of 12 MiB
	if got := a.Size(whole); got != 12<<20 {
		t.Errorf("11 MiB take %d, want all 12 MiB", got)
	}
	part := mustMalloc(t, a, 11<<20-512)
	if got := a.Size(part); got != 11<<20-512 {
		t.Errorf("11 MiB less 512 take %d, want a split", got)
	}
	if s := a.Stats(); s.InactiveSplit.All.Current != 1 || s.InactiveSplitBytes.All.Current != 1<<20+512 {
		t.Errorf("inactive split is %+v", s.InactiveSplit.All)
	}
	if wrong := check(a); wrong != "" {
		t.Error(wrong)
	}
}

func TestBestFitPrefersSmallThenLow(t *testing.T) {
	next := int64(0)
	a := New(Config{Address: func(n int64) int64 { next += 1 << 30; return next }})
	big := mustMalloc(t, a, 40<<20)
	first, second := mustMalloc(t, a, 20<<20), mustMalloc(t, a, 20<<20)
	low := a.Address(first)
	for _, b := range []Block{big, second, first} {
		must.OK(t, a.Free(b))
	}
	if got := a.Address(mustMalloc(t, a, 18<<20)); got != low {
		t.Errorf("placed at %#x, want %#x, the lower of the two smallest", got, low)
	}
	if b, err := a.Malloc(18<<20, 1); err != nil || a.Address(b) <= 3<<30 {
		t.Errorf("another stream got a block of stream 0 at %#x (%v)", a.Address(b), err)
	}
}

func TestMaxSplitSize(t *testing.T) {
	o, err := ParseOptions("max_split_size_mb:64")
	must.OK(t, err)
	a := New(Config{Options: o, Capacity: 400 << 20})
	big := mustMalloc(t, a, 200<<20)
	if s := a.Stats(); s.OversizeAllocations.Current != 1 || s.OversizeSegments.Current != 1 || s.MaxSplitSize != 64<<20 {
		t.Errorf("oversize statistics: %+v %+v", s.OversizeAllocations, s.OversizeSegments)
	}
	must.OK(t, a.Free(big))
	mustMalloc(t, a, 30<<20) // may not take the 200 MiB
	if got := a.stats.ReservedBytes.All.Current; got != 230<<20 {
		t.Errorf("reserved %d, want 230 MiB", got)
	}
	mustMalloc(t, a, 190<<20) // within 20 MiB of it
	if got := a.stats.ReservedBytes.All.Current; got != 230<<20 {
		t.Errorf("reserved %d, want still 230 MiB", got)
	}
	for _, b := range []Block{mustMalloc(t, a, 80<<20), mustMalloc(t, a, 80<<20)} {
		must.OK(t, a.Free(b))
	}
	mustMalloc(t, a, 140<<20) // both of 80 MiB must go first, without a full release
	if s := a.Stats(); s.AllocRetries != 0 || s.DeviceFrees != 2 || s.ReservedBytes.All.Current != 370<<20 {
		t.Errorf("retries %d, freed segments %d, reserved %d", s.AllocRetries, s.DeviceFrees, s.ReservedBytes.All.Current)
	}
}

func TestGarbageCollection(t *testing.T) {
	o, err := ParseOptions("garbage_collection_threshold:0.5")
	must.OK(t, err)
	a := New(Config{Options: o, Limit: 200 << 20})
	old, young := mustMalloc(t, a, 50<<20), mustMalloc(t, a, 60<<20)
	must.OK(t, a.Free(old))
	for range 5 {
		must.OK(t, a.Free(mustMalloc(t, a, 20<<20)))
	}
	must.OK(t, a.Free(young))
	mustMalloc(t, a, 80<<20) // above half of the limit: what was passed over longest goes
	s := a.Stats()
	if s.AllocRetries != 0 || s.DeviceFrees == 0 {
		t.Errorf("retries %d, freed %d; garbage collection did not run", s.AllocRetries, s.DeviceFrees)
	}
	if none := New(Config{Options: o}); none.gcLimit != 0 {
		t.Error("garbage collection without a limit")
	}
}

func TestRetryAndOOM(t *testing.T) {
	a := New(Config{Capacity: 100 << 20})
	b := mustMalloc(t, a, 60<<20)
	must.OK(t, a.Free(b))
	keep := mustMalloc(t, a, 80<<20)
	if s := a.Stats(); s.AllocRetries != 1 || s.ReservedBytes.All.Current != 80<<20 || s.ReservedBytes.All.Peak != 80<<20 {
		t.Errorf("retries %d, reserved %+v", s.AllocRetries, s.ReservedBytes.All)
	}
	_, err := a.Malloc(30<<20, 0)
	var oom *OOM
	if !errors.As(err, &oom) || oom.Tried != 30<<20 || oom.Free != 20<<20 || oom.Allocated != 80<<20 ||
		oom.Reserved != 80<<20 {
		t.Fatalf("error %v (%+v)", err, oom)
	}
	if !strings.HasPrefix(err.Error(),
		"CUDA out of memory. Tried to allocate 30.00 MiB. GPU 0 has a total capacity of 100.00 MiB of "+
			"which 20.00 MiB is free.") {
		t.Errorf("message %q", err)
	}
	if s := a.Stats(); s.OOMs != 1 || s.AllocRetries != 2 {
		t.Errorf("ooms %d, retries %d", s.OOMs, s.AllocRetries)
	}
	must.OK(t, a.Free(keep))
	mustMalloc(t, a, 90<<20) // and life goes on
}

func TestExpandable(t *testing.T) {
	o, err := ParseOptions("expandable_segments:True")
	must.OK(t, err)
	mapped := int64(0)
	a := New(Config{Options: o, Capacity: 100 << 20, Told: func(e TraceEntry) {
		switch e.Action {
		case SegmentMap:
			mapped += e.Bytes
		case SegmentUnmap:
			mapped -= e.Bytes
		}
	}})
	x, y := mustMalloc(t, a, 30<<20), mustMalloc(t, a, 15<<20)
	s := a.Stats()
	if s.ReservedBytes.All.Current != 60<<20 || s.AllocatedBytes.All.Current != 45<<20 || s.Segment.All.Current != 0 ||
		s.DeviceAllocs != 2 {
		t.Errorf("reserved %d, allocated %d, segments %d, mappings %d", s.ReservedBytes.All.Current,
			s.AllocatedBytes.All.Current, s.Segment.All.Current, s.DeviceAllocs)
	}
	if a.Address(y) != a.Address(x)+30<<20 {
		t.Error("blocks do not follow each other")
	}
	must.OK(t, a.Free(x))
	a.EmptyCache() // only the first page is wholly free
	if got := a.stats.ReservedBytes.All.Current; got != 40<<20 {
		t.Errorf("reserved %d after unmapping, want 40 MiB", got)
	}
	z := mustMalloc(t, a, 30<<20) // fills the gap at the lowest address
	if a.Address(z) != a.Address(y)-30<<20 || a.stats.ReservedBytes.All.Current != 60<<20 {
		t.Errorf("placed at %#x, reserved %d", a.Address(z), a.stats.ReservedBytes.All.Current)
	}
	if _, err := a.Malloc(70<<20, 0); err == nil {
		t.Error("70 MiB more than the device has were had")
	}
	if wrong := check(a); wrong != "" {
		t.Error(wrong)
	}
	if mapped != a.stats.ReservedBytes.All.Current {
		t.Errorf("the trace maps %d, reserved are %d", mapped, a.stats.ReservedBytes.All.Current)
	}
}

func TestMisuse(t *testing.T) {
	a := New(Config{})
	if b, err := a.Malloc(0, 0); err != nil || b != 0 || a.Free(b) != nil {
		t.Error("nothing was not had for nothing")
	}
	for _, n := range []int64{-1, 1<<50 + 1} {
		if _, err := a.Malloc(n, 0); err == nil {
			t.Errorf("a request of %d was served", n)
		}
	}
	b := mustMalloc(t, a, 100)
	must.OK(t, a.Free(b))
	for _, bad := range []Block{b, 99, -5} {
		if a.Free(bad) == nil {
			t.Errorf("block %d was freed without being allocated", bad)
		}
	}
}

func TestReplaySpans(t *testing.T) {
	l := new(timeline.Log)
	l.Mark(0, timeline.Load)
	w := l.Alloc(timeline.Request{Bytes: 1000, Category: timeline.Parameter}, 0)
	l.Mark(1, timeline.Forward)
	x := l.Alloc(timeline.Request{Bytes: 3 << 20, Category: timeline.Activation}, 0)
	l.Mark(1, timeline.Backward)
	l.Free(x, 0)
	l.Mark(2, timeline.Forward)
	l.Alloc(timeline.Request{Bytes: 50 << 20, Category: timeline.Activation}, 0)
	l.Free(w, 0)
	r, err := NewReplayer(Config{}).Finish(l)
	must.OK(t, err)
	if len(r.Spans) != 4 || r.Spans[2].Phase != timeline.Backward || r.Spans[2].PeakAllocated.Allocated != 3<<20+1024 ||
		r.Spans[2].End.Allocated != 1024 {
		t.Errorf("spans %+v", r.Spans)
	}
	if r.PeakAllocated.Event != 7 || r.PeakAllocated.Allocated != 50<<20+1024 ||
		r.PeakAllocated.Requested != 50<<20+1000 || r.PeakReserved.Reserved != 72<<20 {
		t.Errorf("peaks %+v %+v", r.PeakAllocated, r.PeakReserved)
	}
	var last TraceEntry
	for e := range r.Trace() {
		last = *e
	}
	if last.Event != 8 || last.Action != FreeCompleted {
		t.Errorf("last line of the trace %+v", last)
	}
	r, err = NewReplayer(Config{Capacity: 30 << 20}).Finish(l)
	if err != nil || r.OOM == nil || r.OOMEvent != 7 || r.End.Allocated != 1024 {
		t.Errorf("with 30 MiB: %+v, %v", r, err)
	}
}
