package caching

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/timeline"
)

// A truthEvent is a line of PyTorch's memory history: [action, address, size].
type truthEvent struct {
	action  string
	address int64
	bytes   int64
}

func (e *truthEvent) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&e.action, &e.address, &e.bytes})
}

func readGzip(t testing.TB, path string, v any) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(v); err != nil {
		t.Fatal(err)
	}
}

// toTimeline turns a recorded history into requests, and lists the segments the
// real allocator got for them.
func toTimeline(t testing.TB, events []truthEvent) (*timeline.Timeline, []truthEvent) {
	t.Helper()
	var b timeline.Builder
	var segments []truthEvent
	live := map[int64]int32{}
	for i, e := range events {
		switch e.action {
		case "alloc":
			live[e.address] = b.Alloc(timeline.Unknown, e.bytes)
		case "free_completed":
			block, ok := live[e.address]
			if !ok {
				t.Fatalf("event %d frees %#x, which is not live", i, e.address)
			}
			b.Free(block, e.bytes)
			delete(live, e.address)
		case "segment_alloc":
			segments = append(segments, e)
		}
	}
	return b.Timeline(), segments
}

// given returns the addresses of a recorded run, and complains about other sizes.
func given(t testing.TB, segments []truthEvent) func(int64) int64 {
	i := 0
	return func(bytes int64) int64 {
		if i >= len(segments) || segments[i].bytes != bytes {
			t.Errorf("segment %d is of %d bytes, the real one was not", i, bytes)
			return int64(i) << 40
		}
		i++
		return segments[i-1].address
	}
}

type expectation struct {
	PeakAlloc    int64 `json:"peak_alloc"`
	PeakReserved int64 `json:"peak_reserved"`
	Segments     int64 `json:"segments"`
}

func expectations(t testing.TB) (names []string, cases map[string]expectation) {
	t.Helper()
	data, err := os.ReadFile("testdata/expect.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases map[string]expectation }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	for name := range file.Cases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, file.Cases
}

// Every measured trace, replayed with the addresses its segments really had,
// must come to PyTorch's own figures. With top-down addresses it must nearly.
func TestTraces(t *testing.T) {
	names, cases := expectations(t)
	if len(names) != 64 {
		t.Fatalf("%d traces, wanted 64", len(names))
	}
	exact, sumAlloc, sumReserved := 0, 0.0, 0.0
	for _, name := range names {
		want := cases[name]
		var events []truthEvent
		readGzip(t, filepath.Join("testdata/traces", name+".json.gz"), &events)
		tl, segments := toTimeline(t, events)
		r, err := Replay(tl, Config{Address: given(t, segments), Record: true})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.PeakAllocated.Allocated != want.PeakAlloc || r.PeakReserved.Reserved != want.PeakReserved {
			t.Errorf("%s: peaks %d and %d, wanted %d and %d", name, r.PeakAllocated.Allocated, r.PeakReserved.Reserved,
				want.PeakAlloc, want.PeakReserved)
		}
		if r.Stats.AllocatedBytes.All.Peak != want.PeakAlloc || r.Stats.ReservedBytes.All.Peak != want.PeakReserved ||
			r.Stats.Segment.All.Current != want.Segments {
			t.Errorf("%s: statistics %+v", name, r.Stats)
		}
		// Not the peaks alone: every block lies where the real one lay.
		compareTraces(t, name, r.Allocator.Trace(), events)

		r, err = Replay(tl, Config{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		a := deviation(r.PeakAllocated.Allocated, want.PeakAlloc)
		b := deviation(r.PeakReserved.Reserved, want.PeakReserved)
		if a == 0 && b == 0 {
			exact++
		} else {
			t.Logf("%s: top-down addresses: allocated %+.4f %%, reserved %+.4f %%", name, a*100, b*100)
		}
		sumAlloc += max(a, -a)
		sumReserved += max(b, -b)
	}
	n := float64(len(names))
	t.Logf("top-down addresses: %d of %d exact; mean deviation: allocated %.4f %%, reserved %.4f %%", exact, len(names),
		sumAlloc/n*100, sumReserved/n*100)
	if exact < 59 || sumAlloc/n > 0.00001 || sumReserved/n > 0.001 {
		t.Error("top-down addresses agree less than they did")
	}
}

func deviation(got, want int64) float64 { return float64(got-want) / float64(want) }

func compareTraces(t *testing.T, name string, got []TraceEntry, want []truthEvent) {
	t.Helper()
	want = slices.DeleteFunc(slices.Clone(want), func(e truthEvent) bool { return e.action == "snapshot" })
	if len(got) > len(want) {
		t.Errorf("%s: %d events, wanted %d", name, len(got), len(want))
	}
	for i := range want {
		if i >= len(got) {
			t.Errorf("%s: %d events, wanted %d", name, len(got), len(want))
			return
		}
		g, w := got[i], want[i]
		if g.Action.String() != w.action || g.Address != w.address || g.Bytes != w.bytes {
			t.Errorf("%s: event %d is %s %#x %d, the real one %s %#x %d", name, i, g.Action, g.Address, g.Bytes, w.action,
				w.address, w.bytes)
			return
		}
	}
}

type snapshot struct {
	Segments []struct {
		address, bytes int64
		small          bool
		blocks         []struct {
			address, bytes, requested int64
			active                    bool
		}
	}
	Trace   []truthEvent
	Stats   map[string]int64
	Message string
}

func (s *snapshot) UnmarshalJSON(data []byte) error {
	var raw struct {
		Segments []json.RawMessage
		Trace    []truthEvent
		Stats    map[string]int64
		Message  string
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return err
	}
	s.Trace, s.Stats, s.Message = raw.Trace, raw.Stats, raw.Message
	s.Segments = make([]struct {
		address, bytes int64
		small          bool
		blocks         []struct {
			address, bytes, requested int64
			active                    bool
		}
	}, len(raw.Segments))
	for i, r := range raw.Segments {
		seg := &s.Segments[i]
		var blocks []json.RawMessage
		if err := json.Unmarshal(r, &[]any{&seg.address, &seg.bytes, &seg.small, &blocks}); err != nil {
			return err
		}
		seg.blocks = append(seg.blocks, make([]struct {
			address, bytes, requested int64
			active                    bool
		}, len(blocks))...)
		for j, b := range blocks {
			d := &seg.blocks[j]
			if err := json.Unmarshal(b, &[]any{&d.address, &d.bytes, &d.requested, &d.active}); err != nil {
				return err
			}
		}
	}
	return nil
}

func readSnapshot(t testing.TB, name string) *snapshot {
	var s snapshot
	readGzip(t, filepath.Join("testdata", name+".json.gz"), &s)
	return &s
}

// Snapshots whose history begins with the process: every figure of memory_stats.
func TestSnapshotStats(t *testing.T) {
	for _, name := range []string{"mlp_allstacks", "mem_track_4_freed", "oom"} {
		s := readSnapshot(t, name)
		tl, segments := toTimeline(t, s.Trace)
		cfg := Config{Address: given(t, segments), Record: true}
		if name == "oom" {
			cfg.Total = 150109880320
			cfg.Options.MemoryFraction = 0.01
			last := s.Trace[slices.IndexFunc(s.Trace, func(e truthEvent) bool { return e.action == "oom" })]
			tl.Events = append(tl.Events, timeline.Event{Block: tl.Blocks, Layer: timeline.NoLayer, Bytes: last.bytes})
			tl.Blocks++
		}
		r, err := Replay(tl, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if name == "mem_track_4_freed" {
			r.Allocator.EmptyCache()
			r.Stats = r.Allocator.Stats()
		}
		compareStats(t, name, &r.Stats, s.Stats)
		compareSegments(t, name, r.Allocator, s)
		if name == "oom" {
			if r.OOM == nil || r.OOMEvent != len(tl.Events)-1 {
				t.Fatalf("the run survived, or died at event %d", r.OOMEvent)
			}
			for _, part := range strings.SplitAfter(r.OOM.Error(), ". ") {
				if !strings.Contains(part, " of which ") && !strings.Contains(s.Message, strings.TrimSpace(part)) {
					t.Errorf("message %q is not in PyTorch's %q", part, s.Message)
				}
			}
		} else if r.OOM != nil {
			t.Errorf("%s: %v", name, r.OOM)
		}
	}
}

func compareStats(t *testing.T, name string, got *Stats, want map[string]int64) {
	t.Helper()
	seen := 0
	for _, f := range got.Figures() {
		w, ok := want[f.Key]
		if !ok {
			continue
		}
		seen++
		if f.Value != w {
			t.Errorf("%s: %s is %d, PyTorch says %d", name, f.Key, f.Value, w)
		}
	}
	if seen != len(want) {
		t.Errorf("%s: only %d of %d figures were compared", name, seen, len(want))
	}
}

func compareSegments(t *testing.T, name string, a *Allocator, s *snapshot) {
	t.Helper()
	got := a.Segments()
	if len(got) != len(s.Segments) {
		t.Errorf("%s: %d segments, PyTorch has %d", name, len(got), len(s.Segments))
		return
	}
	for i, g := range got {
		w := s.Segments[i]
		if g.Address != w.address || g.Bytes != w.bytes || g.Small != w.small || len(g.Blocks) != len(w.blocks) {
			t.Errorf("%s: segment %d is %#x of %d in %d blocks, PyTorch has %#x of %d in %d", name, i, g.Address, g.Bytes,
				len(g.Blocks), w.address, w.bytes, len(w.blocks))
			continue
		}
		for j, b := range g.Blocks {
			wb := w.blocks[j]
			if b.Address != wb.address || b.Bytes != wb.bytes || b.Active != wb.active || wb.active &&
				b.Requested != wb.requested {
				t.Errorf("%s: segment %d: block %d is %+v, PyTorch has %+v", name, i, j, b, wb)
				break
			}
		}
	}
}

// Snapshots whose history begins in the middle of a run: the state before it is
// rebuilt from the state after it, then the history is replayed, and every block
// must land where the real one did.
func TestSnapshotHistory(t *testing.T) {
	for _, name := range []string{"resnet50_seed", "expandable"} {
		s := readSnapshot(t, name)
		expandable := name == "expandable"
		a, live := before(t, s, expandable)
		var segments []truthEvent
		for _, e := range s.Trace {
			if e.action == "segment_alloc" {
				segments = append(segments, e)
			}
		}
		a.cfg.Address = given(t, segments)
		a.cfg.Record = true
		for i, e := range s.Trace {
			switch e.action {
			case "alloc":
				b, err := a.Malloc(e.bytes, 0)
				if err != nil {
					t.Fatal(err)
				}
				if got := a.Address(b); got != e.address {
					t.Fatalf("%s: event %d: block of %d at %#x, PyTorch has it at %#x", name, i, e.bytes, got, e.address)
				}
				live[e.address] = b
			case "free_completed":
				if err := a.Free(live[e.address]); err != nil {
					t.Fatalf("%s: event %d: %v", name, i, err)
				}
				delete(live, e.address)
			}
		}
		compareTraces(t, name, a.Trace(), s.Trace)
		compareSegments(t, name, a, s)
		stats := a.Stats()
		for _, f := range stats.Figures() {
			// Sums and peaks began before the history did.
			if strings.HasSuffix(f.Key, ".all.current") && f.Value != s.Stats[f.Key] {
				t.Errorf("%s: %s is %d, PyTorch says %d", name, f.Key, f.Value, s.Stats[f.Key])
			}
		}
		if s.Stats["reserved_bytes.all.peak"] != a.stats.ReservedBytes.All.Peak {
			t.Errorf("%s: peak of reserved %d", name, a.stats.ReservedBytes.All.Peak)
		}
	}
}

// before builds the allocator as it was when the history began.
func before(t *testing.T, s *snapshot, expandable bool) (*Allocator, map[int64]Block) {
	t.Helper()
	type span struct{ bytes, requested int64 }
	blocks := map[int64]span{}
	for _, seg := range s.Segments {
		for _, b := range seg.blocks {
			if b.active {
				blocks[b.address] = span{b.bytes, b.requested}
			}
		}
	}
	added := map[int64]int64{} // segments, or pages, that came later
	for i := len(s.Trace) - 1; i >= 0; i-- {
		switch e := s.Trace[i]; e.action {
		case "alloc":
			delete(blocks, e.address)
		case "free_completed":
			blocks[e.address] = span{(e.bytes + 511) &^ 511, e.bytes}
		case "segment_alloc", "segment_map":
			added[e.address] = e.bytes
		}
	}
	a := New(Config{Options: Options{ExpandableSegments: expandable}, Total: 150109880320})
	live := map[int64]Block{}
	for _, seg := range s.Segments {
		if added[seg.address] == seg.bytes {
			continue
		}
		p := &a.pools[0]
		if seg.small {
			p = &a.pools[1]
		}
		size, index := seg.bytes, int32(0)
		if expandable {
			page := int64(smallSegment)
			if !seg.small {
				page = largeSegment
			}
			for size > 0 && added[seg.address+size-page] == page {
				size -= page
			}
			length := (a.cfg.total() + a.cfg.total()/8 + page - 1) / page * page
			a.expandable = append(a.expandable, expandableSegment{seg.address, length, page})
			index = int32(len(a.expandable))
		}
		a.stats.ReservedBytes.add(seg.small, size)
		if !expandable {
			a.stats.Segment.add(seg.small, 1)
		}
		last, addr, end := none, seg.address, seg.address+size
		put := func(b block) int32 {
			b.prev, b.segment, b.small = last, index, seg.small
			id := a.newBlock(b)
			if last != none {
				a.at(last).next = id
			}
			last = id
			return id
		}
		for addr < end {
			sp, ok := blocks[addr]
			if ok {
				// What follows may have been too little to split off.
				for next := addr + sp.bytes; !expandable && next < end; next += minBlock {
					if _, ok := blocks[next]; ok || next-addr-sp.bytes > smallSize || seg.small {
						break
					} else if next+minBlock == end {
						sp.bytes = end - addr
					}
				}
				id := put(block{addr: addr, size: sp.bytes, requested: sp.requested, state: active})
				live[addr] = Block(id)
				a.stats.Allocation.add(seg.small, 1)
				a.stats.AllocatedBytes.add(seg.small, sp.bytes)
				a.stats.RequestedBytes.add(seg.small, sp.requested)
				addr += sp.bytes
				continue
			}
			gap := addr
			for addr < end && blocks[addr].bytes == 0 {
				addr += minBlock
			}
			id := put(block{addr: gap, size: addr - gap, state: cached})
			defer a.cache(p, id)
			if !expandable && addr-gap < size {
				a.stats.InactiveSplit.add(seg.small, 1)
				a.stats.InactiveSplitBytes.add(seg.small, addr-gap)
			}
		}
		if expandable {
			rest := a.expandable[index-1].size - size
			id := put(block{addr: end, size: rest, state: unmapped})
			p.unmapped.insert(a.unmappedEntry(id))
		}
	}
	return a, live
}
