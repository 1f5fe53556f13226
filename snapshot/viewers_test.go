package snapshot

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// What PyTorch's own viewers say of the recorded snapshots is what is said here: python -m torch.cuda._memory_viz of
// the end of the recording, and pytorch.org/memory_viz of all of it. testdata/viewers.json has their figures.
func TestViewersAgree(t *testing.T) {
	data := must.Read(t, "testdata/viewers.json")
	type plot struct {
		MaxSize  int64 `json:"max_size"`
		Elements int   `json:"elements"`
	}
	var viewers struct {
		Files map[string]struct {
			Stats struct {
				Segments  int   `json:"segments"`
				Reserved  int64 `json:"total_reserved"`
				Allocated int64 `json:"total_allocated"` // what was asked for
				Free      int64 `json:"total_free"`
			} `json:"stats"`
			Memory   map[string]int64 `json:"memory"` // what was asked for, by the block's state
			Active   plot             `json:"active_memory_timeline"`
			Segments plot             `json:"active_cached_segment_timeline"`
		} `json:"files"`
	}
	must.OK(t, json.Unmarshal(data, &viewers))
	oom := []string{"oom/batch", "oom/exception", "oom/fragmentation", "oom/leak", "oom/stream"}
	if n := len(files(t)) + len(oom); len(viewers.Files) != n {
		t.Fatalf("figures of %d files, wanted %d", len(viewers.Files), n)
	}
	for _, name := range append(files(t), oom...) {
		s := load(t, name)
		want, ok := viewers.Files[filepath.Base(name)]
		if !ok {
			t.Fatalf("no figures of %s", name)
		}
		eq := func(what string, got, want int64) {
			t.Helper()
			if got != want {
				t.Errorf("%s: %s is %d, the viewer says %d", name, what, got, want)
			}
		}
		f := s.Figures(AllDevices)
		asked := f.Requested
		for i := range s.Segments {
			for _, b := range s.Segments[i].Blocks {
				if b.State == PendingFree {
					asked -= b.Requested
				}
			}
		}
		eq("segments", int64(f.Segments()), int64(want.Stats.Segments))
		eq("reserved", f.Reserved, want.Stats.Reserved)
		eq("asked for", asked, want.Stats.Allocated)
		eq("not asked for", f.Reserved-asked, want.Stats.Free)
		eq("asked for, by state", asked, want.Memory["active_allocated"])

		p, err := s.Play(0)
		must.OK(t, err)
		peak, _ := p.Log.Source().Peak()
		eq("the peak of what was asked for", peak, want.Active.MaxSize)
		eq("the peak of what was asked for, in figures", p.History.Requested.Bytes, want.Active.MaxSize)
		eq("allocations", int64(p.Log.Blocks()), int64(want.Active.Elements))
		if f.Expandable.Count == 0 { // the viewer does not follow what expandable segments map
			eq("the peak of what was reserved", p.History.Reserved.Bytes, want.Segments.MaxSize)
		}
	}
}
