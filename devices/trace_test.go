package devices

import (
	"bytes"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	var used atomic.Uint64
	used.Store(1000 << 20)
	var out bytes.Buffer
	tr := NewTrace(func() (uint64, error) { return used.Load(), nil },
		TraceOptions{Interval: time.Hour, Context: "train", Out: &out})
	if err := tr.Start(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		mib  []uint64 // one after the other
		sub  string
		want string
	}{
		{[]uint64{1000}, "", "△Used Peaked MB:      0      0 (train)"},
		{[]uint64{3345}, "load", "△Used Peaked MB:  2,345      0 (train: load)"},
		{[]uint64{4000, 3345}, "", "△Used Peaked MB:  2,345    655 (train)"},
		{[]uint64{500}, "", "△Used Peaked MB:   -500  3,000 (train)"},
	} {
		for _, m := range tt.mib {
			used.Store(m << 20)
			if _, err := tr.Data(); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := tr.Line(tt.sub); err != nil || got != tt.want {
			t.Errorf("after %v: %q, %v, want %q", tt.mib, got, err, tt.want)
		}
	}
	if err := tr.ReportAndReset("epoch 1"); err != nil {
		t.Fatal(err)
	}
	if d, err := tr.Data(); err != nil || d.Used != 0 || d.Peaked != 0 {
		t.Errorf("after a reset: %+v, %v", d, err)
	}
	if err := tr.Stop(); err != nil {
		t.Fatal(err)
	}
	used.Store(9000 << 20) // after the end
	if d, err := tr.Data(); err != nil || d.Used != 0 {
		t.Errorf("after Stop: %+v, %v", d, err)
	}
	if want := "△Used Peaked MB:   -500  3,000 (train: epoch 1)\n"; out.String() != want {
		t.Errorf("reported %q, want %q", out.String(), want)
	}
	if err := errors.Join(tr.Stop(), tr.Start(), tr.Start(), tr.Stop()); err != nil {
		t.Error(err)
	}
	silent := NewTrace(func() (uint64, error) { return 0, nil }, TraceOptions{Silent: true, Out: &out})
	out.Reset()
	if err := errors.Join(silent.Start(), silent.Report("x"), silent.Stop()); err != nil || out.Len() > 0 {
		t.Errorf("a silent trace wrote %q, %v", out.String(), err)
	}
}

func TestTraceSeesPeaks(t *testing.T) {
	var used atomic.Uint64
	tr := NewTrace(func() (uint64, error) { return used.Load(), nil }, TraceOptions{Interval: time.Millisecond})
	if err := tr.Start(); err != nil {
		t.Fatal(err)
	}
	used.Store(7 << 20)
	waitUntil(t, func() bool { tr.mu.Lock(); defer tr.mu.Unlock(); return tr.peak == 7<<20 })
	used.Store(2 << 20)
	if err := tr.Stop(); err != nil {
		t.Fatal(err)
	}
	if d, err := tr.Data(); err != nil || d.Used != 2<<20 || d.Peaked != 5<<20 {
		t.Errorf("%+v, %v, want 2 MiB used, 5 MiB peaked", d, err)
	}
}

func waitUntil(t *testing.T, ok func() bool) {
	t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		if time.Since(start) > 20*time.Second {
			t.Fatal("it did not happen")
		}
	}
}

func TestTraceFails(t *testing.T) {
	broken := errors.New("GPU is lost")
	var fails atomic.Bool
	tr := NewTrace(func() (uint64, error) {
		if fails.Load() {
			return 0, broken
		}
		return 0, nil
	}, TraceOptions{Interval: time.Millisecond})
	if err := tr.Start(); err != nil {
		t.Fatal(err)
	}
	fails.Store(true)
	waitUntil(t, func() bool { tr.mu.Lock(); defer tr.mu.Unlock(); return tr.err != nil })
	if err := tr.Stop(); !errors.Is(err, broken) {
		t.Errorf("Stop: %v", err)
	}
	if _, err := tr.Data(); !errors.Is(err, broken) || !strings.HasPrefix(err.Error(), "trace: ") {
		t.Errorf("Data: %v", err)
	}
	if err := tr.Start(); !errors.Is(err, broken) {
		t.Errorf("Start: %v", err)
	}
}

func TestWatchByDevice(t *testing.T) {
	a, b := card("GPU-a", gib), card("GPU-b", 0)
	s := newSession(&scripted{gpus: []*scriptedGPU{a, b}})
	ds, err := s.List()
	if err != nil {
		t.Fatal(err)
	}
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
	if g := traces[0]; g.ByProcess || g.Start != gib || g.End != 3*gib || g.Peak != 9*gib || g.Used != 2*gib ||
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
