package replay

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/test/must"
)

func load(t testing.TB, name string) *snapshot.Snapshot {
	t.Helper()
	f, err := os.Open(filepath.Join("../testdata", name+".pickle.gz"))
	must.OK(t, err)
	defer f.Close()
	s, err := snapshot.Read(f, snapshot.Options{})
	must.OK(t, err)
	return s
}

// Other settings change what is reserved, and whether memory runs out.
func TestTry(t *testing.T) {
	s := load(t, "oom")
	h, err := s.History(0)
	must.OK(t, err)
	low, high, ok := Capacity(h)
	// 1 % of 139.8 GiB were allowed, 1426063360 bytes reserved, 100 MiB wanted.
	if !ok || low != 1426063360 || high != 1426063360+104857600 {
		t.Fatalf("capacity from %d to %d, %v", low, high, ok)
	}
	for _, c := range []struct {
		conf     string
		capacity int64
		fails    bool
	}{
		{"", low, true}, {"", high - 1, true}, {"", high, false},
		// Pages of 20 MiB instead of whole segments: 26 tensors take 1360 MiB, and
		// the next 100 MiB need more than there is either way.
		{"expandable_segments:True", low, true},
	} {
		r, err := Try(s, 0, &Trial{Conf: c.conf, Capacity: c.capacity})
		must.OK(t, err)
		if (len(r.Failed) > 0) != c.fails {
			t.Errorf("%q with %d: failed %+v", c.conf, c.capacity, r.Failed)
		}
	}
	s = load(t, "resnet50_seed")
	plain, err := Try(s, 0, &Trial{})
	must.OK(t, err)
	exp, err := Try(s, 0, &Trial{Conf: "expandable_segments:True"})
	must.OK(t, err)
	if exp.PeakReserved >= plain.PeakReserved || exp.PeakAllocated > plain.PeakAllocated ||
		exp.PeakReserved < exp.PeakAllocated {
		t.Errorf("expandable segments: %d of %d, without them %d of %d", exp.PeakAllocated, exp.PeakReserved,
			plain.PeakAllocated, plain.PeakReserved)
	}
	if _, err := Try(s, 0, &Trial{Conf: "max_split:1"}); err == nil || !strings.Contains(err.Error(), "max_split_size_mb") {
		t.Errorf("an unknown setting: %v", err)
	}
}

// requests are what a recording asked for, with the categories that their life suggests.
func requests(t *testing.T, s *snapshot.Snapshot) *timeline.Log {
	t.Helper()
	p, err := s.Play(0)
	must.OK(t, err)
	p.Infer()
	return p.Log
}

// A measured run, replayed and written as a prediction, reads back as the
// same requests with the same peaks.
func TestPredicted(t *testing.T) {
	for _, name := range []string{"resnet50_seed", "mlp_allstacks", "expandable", "mem_track_0"} {
		l := requests(t, load(t, name))
		r, err := caching.NewReplayer(caching.Config{}).Finish(l)
		must.OK(t, err)
		var file bytes.Buffer
		must.OK(t, WritePredicted(&file, l.Layers, l.Events, r, "model.onnx", "", nil))
		back, err := snapshot.Read(&file, snapshot.Options{})
		must.OK(t, err)
		h, err := back.History(0)
		must.OK(t, err)
		if !h.Exact || h.Allocated.Bytes != r.PeakAllocated.Allocated || h.Reserved.Bytes != r.PeakReserved.Reserved {
			t.Errorf("%s: written %d and %d, predicted %d and %d; doubts %q", name, h.Allocated.Bytes, h.Reserved.Bytes,
				r.PeakAllocated.Allocated, r.PeakReserved.Reserved, h.Doubts)
		}
		var want, got []timeline.Event
		for e := range l.Events {
			if e.Kind != timeline.Mark && e.Bytes > 0 {
				want = append(want, e)
			}
		}
		for e := range requests(t, back).Events {
			if e.Kind != timeline.Mark {
				got = append(got, e)
			}
		}
		if len(got) != len(want) {
			t.Fatalf("%s: %d events read back of %d", name, len(got), len(want))
		}
		for i := range got {
			if got[i].Kind != want[i].Kind || got[i].Bytes != want[i].Bytes || got[i].Kind == timeline.Alloc &&
				got[i].Category != want[i].Category {
				t.Fatalf("%s: event %d is %+v, was %+v", name, i, got[i], want[i])
			}
		}
	}
}

// The timeline of a recording asks for what the recording asked for, and finds
// the phases of its training loop.
func TestTimeline(t *testing.T) {
	s := load(t, "resnet50_seed")
	h, err := s.History(0)
	must.OK(t, err)
	l := requests(t, s)
	tl := l.Source()
	must.OK(t, tl.Check())
	if peak, _ := tl.Peak(); peak != h.Requested.Bytes {
		t.Errorf("peak of %d requested bytes, the recording has %d", peak, h.Requested.Bytes)
	}
	seen := map[timeline.Phase]map[int32]bool{}
	for e := range l.Events {
		if seen[e.Phase] == nil {
			seen[e.Phase] = map[int32]bool{}
		}
		seen[e.Phase][e.Step] = true
	}
	for _, p := range []timeline.Phase{timeline.Forward, timeline.Loss, timeline.Backward, timeline.Finish} {
		if len(seen[p]) != 5 {
			t.Errorf("%s in %d steps, wanted 5", p, len(seen[p]))
		}
	}
	// Momentum is allocated in the first step alone: as much as the parameters have.
	if len(seen[timeline.Optimizer]) != 1 {
		t.Errorf("the optimizer allocates in %d steps, wanted 1", len(seen[timeline.Optimizer]))
	}
	by := tl.ByCategory(tl.Len - 1)
	if by[timeline.OptimizerState] != 102228128 {
		t.Errorf("%d bytes of optimizer state, wanted the 102228128 of resnet50's parameters", by[timeline.OptimizerState])
	}
}
