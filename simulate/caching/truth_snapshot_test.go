package caching

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

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
	testfile.JSON(t, filepath.Join("testdata", name+".json.gz"), &s)
	return &s
}

// Snapshots whose history begins with the process: every figure of memory_stats.
func TestSnapshotStats(t *testing.T) {
	for _, name := range []string{"mlp_allstacks", "mem_track_4_freed", "oom"} {
		s := readSnapshot(t, name)
		tl, segments := toTimeline(t, s.Trace)
		cfg := Config{Address: given(t, segments)}
		if name == "oom" {
			cfg.Total = 150109880320
			cfg.Options.MemoryFraction = 0.01
			last := s.Trace[slices.IndexFunc(s.Trace, func(e truthEvent) bool { return e.action == "oom" })]
			tl.Alloc(timeline.Request{Bytes: last.bytes, Layer: timeline.NoLayer}, 0)
		}
		r, err := NewReplayer(cfg).Finish(tl)
		must.OK(t, err)
		if name == "mem_track_4_freed" {
			r.Allocator.EmptyCache()
			r.Stats = r.Allocator.Stats()
		}
		compareStats(t, name, &r.Stats, s.Stats)
		compareSegments(t, name, r.Allocator, s)
		if name == "oom" {
			if r.OOM == nil || r.OOMEvent != tl.Len()-1 {
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
	for key, value := range got.Figures() {
		w, ok := want[key]
		if !ok {
			continue
		}
		seen++
		if value != w {
			t.Errorf("%s: %s is %d, PyTorch says %d", name, key, value, w)
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
		var trace []TraceEntry
		a.cfg.Told = func(e TraceEntry) { trace = append(trace, e) }
		for i, e := range s.Trace {
			switch e.action {
			case "alloc":
				b, err := a.Malloc(e.bytes, 0)
				must.OK(t, err)
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
		compareTraces(t, name, trace, s.Trace)
		compareSegments(t, name, a, s)
		stats := a.Stats()
		for key, value := range stats.Figures() {
			// Sums and peaks began before the history did.
			if strings.HasSuffix(key, ".all.current") && value != s.Stats[key] {
				t.Errorf("%s: %s is %d, PyTorch says %d", name, key, value, s.Stats[key])
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
