package devices

import (
	"errors"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/must"
)

func TestWatchByDevice(t *testing.T) {
	a, b := card("GPU-a", gib), card("GPU-b", 0)
	s := newSession(&scripted{gpus: []*scriptedGPU{a, b}})
	ds, err := s.List()
	must.OK(t, err)
	w := s.Watch(ds)
	a.mem.used = 9 * gib
	w.Sample()
	a.mem.used = 3 * gib
	b.errs["memory"] = codeLost
	w.Sample()
	traces := w.Traces()
	if len(traces) != 2 {
		t.Fatalf("%d traces", len(traces))
	}
	if g := traces[0]; g.By != ByDevice || g.Start != gib || g.End != 3*gib || g.Peak != 9*gib || g.Used != 2*gib ||
		g.Peaked != 6*gib || g.Samples != 3 || len(g.Timeline) != 3 {
		t.Errorf("GPU 0: %+v", g)
	}
	if g := traces[1]; !errors.Is(g.Err, codeLost) || g.Samples != 2 {
		t.Errorf("GPU 1: %+v", g)
	}
}

// TestLongTimeline: a timeline stays within its bound and keeps every peak.
func TestLongTimeline(t *testing.T) {
	var s series
	const n, peakAt = 100_000, 77_777
	for i := range n {
		used := uint64(i % 10)
		if i == peakAt {
			used = 1 << 40
		}
		s.add(time.Duration(i)*time.Millisecond, used)
	}
	if len(s.points) > maxPoints || len(s.points) < maxPoints/2 || s.samples != n || s.peak != 1<<40 ||
		s.peakAt != peakAt*time.Millisecond {
		t.Errorf("%d points, %d samples, peak %d at %v", len(s.points), s.samples, s.peak, s.peakAt)
	}
	found := 0
	for i, p := range s.points {
		if i > 0 && p.At <= s.points[i-1].At {
			t.Fatalf("point %d is at %v, the one before at %v", i, p.At, s.points[i-1].At)
		}
		if p.Used == 1<<40 {
			found++
			if next := time.Duration(n) * time.Millisecond; i+1 < len(s.points) {
				next = s.points[i+1].At
				if p.At > s.peakAt || next <= s.peakAt {
					t.Errorf("the peak is between %v and %v", p.At, next)
				}
			}
		}
	}
	if found != 1 {
		t.Errorf("the peak is in %d points", found)
	}
}
