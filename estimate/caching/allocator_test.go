package caching

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// check says what is wrong with an allocator's inner order, "" if nothing.
func check(a *Allocator) string {
	var active, activeSmall, bytes, requested, reserved, segments, split, splitBytes, cachedBlocks int64
	for _, s := range a.Segments() {
		at := s.Address
		wasFree := false
		expandable := s.Expandable
		for i, b := range s.Blocks {
			switch {
			case b.Address != at:
				return "blocks do not tile their segment"
			case b.Bytes <= 0 || b.Bytes%minBlock != 0:
				return "a block is not of a multiple of 512 bytes"
			case !b.Active && wasFree && i > 0:
				return "two cached neighbours were not merged"
			case b.Active && b.Requested > b.Bytes:
				return "a block is smaller than its request"
			}
			at += b.Bytes
			wasFree = !b.Active
			if b.Active {
				active++
				if s.Small {
					activeSmall++
				}
				bytes += b.Bytes
				requested += b.Requested
			} else {
				cachedBlocks++
				if !expandable && len(s.Blocks) > 1 {
					split++
					splitBytes += b.Bytes
				}
			}
		}
		if at != s.Address+s.Bytes {
			return "blocks do not fill their segment"
		}
		reserved += s.Bytes
		if !expandable {
			segments++
		}
	}
	st := a.Stats()
	for _, p := range []struct {
		name string
		got  Stat
		want int64
	}{
		{"allocation", st.Allocation.All, active}, {"allocation small", st.Allocation.Small, activeSmall}, {"active",
			st.Active.All, active},
		{"allocated_bytes", st.AllocatedBytes.All, bytes}, {"active_bytes", st.ActiveBytes.All, bytes},
		{"requested_bytes", st.RequestedBytes.All, requested}, {"reserved_bytes", st.ReservedBytes.All, reserved},
		{"segment", st.Segment.All, segments}, {"inactive_split", st.InactiveSplit.All, split}, {"inactive_split_bytes",
			st.InactiveSplitBytes.All, splitBytes},
	} {
		if p.got.Current != p.want {
			return "the statistic " + p.name + " is not the sum of the blocks"
		}
		if p.got.Allocated-p.got.Freed != p.got.Current || p.got.Peak < p.got.Current {
			return "the statistic " + p.name + " contradicts itself"
		}
	}
	for _, p := range []PoolStat{st.Allocation, st.Segment, st.Active, st.InactiveSplit, st.AllocatedBytes,
		st.ReservedBytes, st.ActiveBytes, st.InactiveSplitBytes, st.RequestedBytes} {
		if p.Small.Current+p.Large.Current != p.All.Current || p.Small.Current < 0 || p.Large.Current < 0 {
			return "the pools do not add up"
		}
	}
	if st.AllocatedBytes.All.Current > st.ReservedBytes.All.Current ||
		st.RequestedBytes.All.Current > st.AllocatedBytes.All.Current {
		return "requested <= allocated <= reserved does not hold"
	}
	if int64(a.pools[0].free.n+a.pools[1].free.n) != cachedBlocks {
		return "the pools hold something else than the cached blocks"
	}
	for i := range a.pools {
		p := &a.pools[i]
		n, last := 0, entry{stream: -1}
		for at := p.free.from(0, 0); ; at = p.free.next(at) {
			e, ok := p.free.at(at)
			if !ok {
				break
			}
			if last.before(&e) == 0 {
				return "a pool is out of order"
			}
			last = e
			n++
		}
		if n != p.free.n {
			return "a pool miscounts"
		}
		n, last = 0, entry{stream: -1}
		for at := (pos{}); ; at = p.unmapped.next(at) {
			e, ok := p.unmapped.at(at)
			if !ok {
				break
			}
			if last.before(&e) == 0 {
				return "the unmapped ranges are out of order"
			}
			last = e
			n++
		}
		if n != p.unmapped.n {
			return "the unmapped ranges are miscounted"
		}
	}
	return ""
}

// drive turns bytes into requests: the allocator's whole life in a fuzzer's hands.
func drive(t *testing.T, data []byte) {
	if len(data) < 4 {
		return
	}
	cfg := Config{}
	if data[0]&1 != 0 {
		cfg.Options.ExpandableSegments = true
	}
	if data[0]&2 != 0 && data[0]&1 == 0 {
		cfg.Options.MaxSplitSize = 24 << 20
	}
	if data[0]&4 != 0 {
		cfg.Options.GCThreshold = 0.6
		cfg.Limit = 600 << 20
	}
	if data[0]&8 != 0 {
		cfg.Capacity = 400 << 20
	}
	if data[0]&16 != 0 {
		for i := range cfg.Options.RoundupDivisions {
			cfg.Options.RoundupDivisions[i] = int64(1) << (data[1] % 6)
		}
	}
	if data[0]&32 != 0 {
		cfg.Address = func(int64) int64 { return 1 << 30 } // a caller's nonsense must do no harm
		cfg.Options.ExpandableSegments = false
	}
	a := New(cfg)
	var live []Block
	for i := 2; i+2 < len(data); i += 3 {
		op, x := data[i], int64(data[i+1])<<8|int64(data[i+2])
		switch {
		case op < 140:
			size := []int64{x, x * 16, x * 512, x << 10, x << 12}[op%5]
			b, err := a.Malloc(size, int(op>>6)&1)
			var oom *OOM
			if err != nil && !errors.As(err, &oom) {
				t.Fatal(err)
			}
			if err == nil {
				live = append(live, b)
			} else if oom.Reserved > a.capacity || oom.Error() == "" {
				t.Fatalf("more than the capacity is reserved: %+v", oom)
			}
		case op < 250 && len(live) > 0:
			j := int(x) % len(live)
			if err := a.Free(live[j]); err != nil {
				t.Fatal(err)
			}
			live = slices.Delete(live, j, j+1)
		case op >= 250:
			a.EmptyCache()
		}
		if a.stats.ReservedBytes.All.Current > a.capacity {
			t.Fatal("more is reserved than the device has")
		}
	}
	if cfg.Address == nil {
		if wrong := check(a); wrong != "" {
			t.Fatal(wrong)
		}
	}
	for _, b := range live {
		if err := a.Free(b); err != nil {
			t.Fatal(err)
		}
	}
	a.EmptyCache()
	if s := a.Stats(); s.ReservedBytes.All.Current != 0 || s.AllocatedBytes.All.Current != 0 || len(a.Segments()) != 0 {
		t.Fatalf("something is left after everything was given back: %+v", s)
	}
}

func FuzzAllocator(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for mode := range 64 {
		data := make([]byte, 300)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		data[0] = byte(mode)
		f.Add(data)
	}
	f.Fuzz(drive)
}

// Long random lives, checked on the way.
func TestProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for round := range 40 {
		data := make([]byte, 3000)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		data[0] = byte(round) &^ 32
		drive(t, data)
	}
}

func mustMalloc(t *testing.T, a *Allocator, bytes int64) Block {
	t.Helper()
	b, err := a.Malloc(bytes, 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRounding(t *testing.T) {
	var o Options
	for bytes, want := range map[int64]int64{1: 512, 512: 512, 513: 1024, 1 << 20: 1 << 20, 1<<20 + 1: 1<<20 + 512} {
		if got := o.roundSize(bytes); got != want {
			t.Errorf("round(%d) = %d, want %d", bytes, got, want)
		}
	}
	o, err := ParseOptions("roundup_power2_divisions:4")
	if err != nil {
		t.Fatal(err)
	}
	for bytes, want := range map[int64]int64{1200: 1536, 2048: 2048, 2049: 2560, 5000: 5120, 9 << 20: 10 << 20,
		13<<20 + 1: 14 << 20, 16 << 20: 16 << 20} {
		if got := o.roundSize(bytes); got != want {
			t.Errorf("round(%d) by 4 = %d, want %d", bytes, got, want)
		}
	}
	if got := roundDivisions(3, 8); got != 4 {
		t.Errorf("more divisions than bytes: %d, want the next power of two", got)
	}
	o, err = ParseOptions("roundup_power2_divisions:[4:8, 16:2, >:1]")
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
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
		if err := a.Free(b); err != nil {
			t.Fatal(err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Options: o, Capacity: 400 << 20})
	big := mustMalloc(t, a, 200<<20)
	if s := a.Stats(); s.OversizeAllocations.Current != 1 || s.OversizeSegments.Current != 1 || s.MaxSplitSize != 64<<20 {
		t.Errorf("oversize statistics: %+v %+v", s.OversizeAllocations, s.OversizeSegments)
	}
	if err := a.Free(big); err != nil {
		t.Fatal(err)
	}
	mustMalloc(t, a, 30<<20) // may not take the 200 MiB
	if got := a.stats.ReservedBytes.All.Current; got != 230<<20 {
		t.Errorf("reserved %d, want 230 MiB", got)
	}
	mustMalloc(t, a, 190<<20) // within 20 MiB of it
	if got := a.stats.ReservedBytes.All.Current; got != 230<<20 {
		t.Errorf("reserved %d, want still 230 MiB", got)
	}
	for _, b := range []Block{mustMalloc(t, a, 80<<20), mustMalloc(t, a, 80<<20)} {
		if err := a.Free(b); err != nil {
			t.Fatal(err)
		}
	}
	mustMalloc(t, a, 140<<20) // both of 80 MiB must go first, without a full release
	if s := a.Stats(); s.AllocRetries != 0 || s.DeviceFrees != 2 || s.ReservedBytes.All.Current != 370<<20 {
		t.Errorf("retries %d, freed segments %d, reserved %d", s.AllocRetries, s.DeviceFrees, s.ReservedBytes.All.Current)
	}
}

func TestGarbageCollection(t *testing.T) {
	o, err := ParseOptions("garbage_collection_threshold:0.5")
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Options: o, Limit: 200 << 20})
	old, young := mustMalloc(t, a, 50<<20), mustMalloc(t, a, 60<<20)
	if err := a.Free(old); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if err := a.Free(mustMalloc(t, a, 20<<20)); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Free(young); err != nil {
		t.Fatal(err)
	}
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
	if err := a.Free(b); err != nil {
		t.Fatal(err)
	}
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
	if err := a.Free(keep); err != nil {
		t.Fatal(err)
	}
	mustMalloc(t, a, 90<<20) // and life goes on
}

func TestExpandable(t *testing.T) {
	o, err := ParseOptions("expandable_segments:True")
	if err != nil {
		t.Fatal(err)
	}
	a := New(Config{Options: o, Capacity: 100 << 20, Record: true})
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
	if err := a.Free(x); err != nil {
		t.Fatal(err)
	}
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
	mapped := int64(0)
	for _, e := range a.Trace() {
		switch e.Action {
		case SegmentMap:
			mapped += e.Bytes
		case SegmentUnmap:
			mapped -= e.Bytes
		}
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
	if err := a.Free(b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []Block{b, 99, -5} {
		if a.Free(bad) == nil {
			t.Errorf("block %d was freed without being allocated", bad)
		}
	}
}

func TestReplaySpans(t *testing.T) {
	var b timeline.Builder
	w := b.Alloc(timeline.Parameter, 1000)
	b.Mark(1, timeline.Forward)
	x := b.Alloc(timeline.Activation, 3<<20)
	b.Mark(1, timeline.Backward)
	b.Free(x, 3<<20)
	b.Mark(2, timeline.Forward)
	b.Alloc(timeline.Activation, 50<<20)
	b.Free(w, 1000)
	tl := b.Timeline()
	r, err := Replay(tl, Config{Record: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Spans) != 4 || r.Spans[2].Phase != timeline.Backward || r.Spans[2].PeakAllocated.Allocated != 3<<20+1024 ||
		r.Spans[2].End.Allocated != 1024 {
		t.Errorf("spans %+v", r.Spans)
	}
	if r.PeakAllocated.Event != 6 || r.PeakAllocated.Allocated != 50<<20+1024 ||
		r.PeakAllocated.Requested != 50<<20+1000 || r.PeakReserved.Reserved != 72<<20 {
		t.Errorf("peaks %+v %+v", r.PeakAllocated, r.PeakReserved)
	}
	if last := r.Allocator.Trace()[len(r.Allocator.Trace())-1]; last.Event != 7 || last.Action != FreeCompleted {
		t.Errorf("last line of the trace %+v", last)
	}
	r, err = Replay(tl, Config{Capacity: 30 << 20})
	if err != nil || r.OOM == nil || r.OOMEvent != 6 || r.End.Allocated != 1024 {
		t.Errorf("with 30 MiB: %+v, %v", r, err)
	}
	if _, err := Replay(&timeline.Timeline{Blocks: 1}, Config{}); err == nil {
		t.Error("a broken timeline was replayed")
	}
}

func TestSet(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var s set
	var want []entry
	for range 20000 {
		e := entry{stream: int32(r.IntN(2)), size: int64(r.IntN(50)), addr: int64(r.IntN(1000)), id: 1}
		i, found := slices.BinarySearchFunc(want, e, func(a, b entry) int {
			if a.before(&b) == 1 {
				return -1
			} else if b.before(&a) == 1 {
				return 1
			}
			return 0
		})
		if found {
			if !s.remove(e) {
				t.Fatal("an entry was lost")
			}
			want = slices.Delete(want, i, i+1)
			continue
		}
		if s.remove(e) {
			t.Fatal("an entry was found that is not there")
		}
		s.insert(e)
		want = slices.Insert(want, i, e)
	}
	at := pos{}
	for _, w := range want {
		e, ok := s.at(at)
		if !ok || e != w {
			t.Fatalf("entry %+v, want %+v", e, w)
		}
		at = s.next(at)
	}
	if _, ok := s.at(at); ok || s.n != len(want) {
		t.Error("entries are left over")
	}
	p, ok := s.prev(pos{len(s.chunks), 0})
	if e, _ := s.at(p); !ok || e != want[len(want)-1] {
		t.Error("the last entry is not before the end")
	}
}

// The free blocks are in order whatever bins they lie in, and are found from any place, in both directions.
func TestFreeBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var f freeBlocks
	var want []entry
	order := func(a, b entry) int { return int(b.before(&a)) - int(a.before(&b)) }
	for range 20000 {
		e := entry{stream: int32(r.IntN(3)), size: int64(r.IntN(70)+1) * minBlock << r.IntN(45), addr: int64(r.IntN(4)),
			id: 1}
		i, found := slices.BinarySearchFunc(want, e, order)
		if f.remove(e) != found {
			t.Fatalf("%+v: found %v, want %v", e, !found, found)
		}
		if found {
			want = slices.Delete(want, i, i+1)
		} else {
			f.insert(e)
			want = slices.Insert(want, i, e)
		}
		size := e.size + int64(r.IntN(3)-1)*minBlock
		i, _ = slices.BinarySearchFunc(want, entry{stream: e.stream, size: size, addr: -1}, order)
		at := f.first(e.stream, size)
		if got, ok := f.at(at); ok != (i < len(want)) || ok && got != want[i] {
			t.Fatalf("the first of stream %d with %d is %+v %v, want place %d", e.stream, size, got, ok, i)
		}
		before, ok := f.prev(at)
		if ok != (i > 0) {
			t.Fatalf("before place %d: %v", i, ok)
		}
		if got, _ := f.at(before); ok && got != want[i-1] {
			t.Fatalf("before place %d is %+v, want %+v", i, got, want[i-1])
		}
	}
	at := f.from(0, 0)
	for _, w := range want {
		if e, ok := f.at(at); !ok || e != w {
			t.Fatalf("entry %+v, want %+v", e, w)
		}
		at = f.next(at)
	}
	if _, ok := f.at(at); ok || f.n != len(want) {
		t.Error("blocks are left over")
	}
}
