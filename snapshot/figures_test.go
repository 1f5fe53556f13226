package snapshot

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// reported is what PyTorch said at the moment of the snapshot.
type reported struct {
	MemoryAllocated    int64            `json:"memory_allocated"`
	MaxMemoryAllocated int64            `json:"max_memory_allocated"`
	MemoryReserved     int64            `json:"memory_reserved"`
	MaxMemoryReserved  int64            `json:"max_memory_reserved"`
	Segments           int              `json:"segments"`
	TotalSize          int64            `json:"segments_total_size"`
	AllocatedSize      int64            `json:"segments_allocated_size"`
	ActiveSize         int64            `json:"segments_active_size"`
	Blocks             int              `json:"blocks"`
	Actions            map[string]int   `json:"actions"`
	Stats              map[string]int64 `json:"memory_stats"`
}

func report(t testing.TB, name string) reported {
	t.Helper()
	b := must.Read(t, filepath.Join("testdata", name+".json"))
	var r reported
	must.OK(t, json.Unmarshal(b, &r))
	return r
}

// Every recorded snapshot gives the figures that PyTorch reported with it.
func TestFigures(t *testing.T) {
	for _, name := range files(t) {
		s, want := load(t, name), report(t, name)
		f := s.Figures(AllDevices)
		h, err := s.History(0)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !h.Exact {
			t.Errorf("%s: doubts: %q", name, h.Doubts)
		}
		var total, allocated, active int64
		for i := range s.Segments {
			total += s.Segments[i].Total
			allocated += s.Segments[i].Allocated
			active += s.Segments[i].Active
		}
		eq := func(what string, got, want int64) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s is %d, PyTorch says %d", name, what, got, want)
			}
		}
		eq("memory_allocated", f.Allocated, want.MemoryAllocated)
		eq("memory_reserved", f.Reserved, want.MemoryReserved)
		eq("max_memory_allocated", h.Allocated.Bytes, want.MaxMemoryAllocated)
		eq("max_memory_reserved", h.Reserved.Bytes, want.MaxMemoryReserved)
		eq("segments", int64(f.Segments()), int64(want.Segments))
		eq("segments_total_size", total, want.TotalSize)
		eq("segments_allocated_size", allocated, want.AllocatedSize)
		eq("segments_active_size", active, want.ActiveSize)
		eq("active", f.Active, want.ActiveSize)
		eq("blocks", int64(f.Blocks[0].Count+f.Blocks[1].Count+f.Blocks[2].Count), int64(want.Blocks))
		actions := 0
		for _, a := range s.Actions(AllDevices) {
			// The snapshot of the file was taken after the one that was counted.
			if a.Action == Snap {
				a.Count--
			}
			if a.Count == 0 {
				continue
			}
			actions++
			eq("actions."+s.ActionName(a.Action), int64(a.Count), int64(want.Actions[s.ActionName(a.Action)]))
		}
		eq("kinds of actions", int64(actions), int64(len(want.Actions)))
		if len(want.Stats) == 0 {
			continue // before the first allocation PyTorch has none
		}
		stat := func(key string, got int64) {
			t.Helper()
			w, ok := want.Stats[key]
			if !ok {
				t.Errorf("%s: no %s in the report", name, key)
			}
			eq(key, got, w)
		}
		stat("allocated_bytes.all.current", f.Allocated)
		stat("allocated_bytes.all.peak", h.Allocated.Bytes)
		stat("active_bytes.all.current", f.Active)
		stat("active_bytes.all.peak", h.Active.Bytes)
		stat("requested_bytes.all.current", f.Requested)
		stat("requested_bytes.all.peak", h.Requested.Bytes)
		stat("reserved_bytes.all.current", f.Reserved)
		stat("reserved_bytes.all.peak", h.Reserved.Bytes)
		stat("allocation.all.current", int64(f.Blocks[ActiveAllocated].Count))
		stat("allocation.all.peak", int64(h.Count))
		stat("active.all.current", int64(f.Blocks[ActiveAllocated].Count+f.Blocks[PendingFree].Count))
		stat("inactive_split.all.current", int64(f.InactiveSplit.Count))
		stat("inactive_split_bytes.all.current", f.InactiveSplit.Bytes)
		stat("segment.all.current", int64(f.Small.Count+f.Large.Count))
		stat("segment.all.peak", int64(h.SegmentCount))
		stat("num_ooms", int64(len(h.OOMs)))
	}
}
