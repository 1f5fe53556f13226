package caching

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/memestimate/memestimate/simulate/timeline"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
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

// toTimeline turns a recorded history into requests, and lists the segments the
// real allocator got for them.
func toTimeline(t testing.TB, events []truthEvent) (*timeline.Log, []truthEvent) {
	t.Helper()
	l := new(timeline.Log)
	var segments []truthEvent
	live := map[int64]int32{}
	for i, e := range events {
		switch e.action {
		case "alloc":
			live[e.address] = l.Alloc(timeline.Request{Bytes: e.bytes, Layer: timeline.NoLayer}, 0)
		case "free_completed":
			block, ok := live[e.address]
			if !ok {
				t.Fatalf("event %d frees %#x, which is not live", i, e.address)
			}
			l.Free(block, timeline.NoLayer)
			delete(live, e.address)
		case "segment_alloc":
			segments = append(segments, e)
		}
	}
	return l, segments
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
	data := must.Read(t, "testdata/expect.json")
	var file struct{ Cases map[string]expectation }
	must.OK(t, json.Unmarshal(data, &file))
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
		testfile.JSON(t, filepath.Join("testdata/traces", name+".json.gz"), &events)
		tl, segments := toTimeline(t, events)
		var trace []TraceEntry
		told := func(e TraceEntry) { trace = append(trace, e) }
		r, err := NewReplayer(Config{Address: given(t, segments), Told: told}).Finish(tl)
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
		compareTraces(t, name, trace, events)

		r, err = NewReplayer(Config{}).Finish(tl)
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
	if len(got) != len(want) {
		t.Errorf("%s: %d events, wanted %d", name, len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		g, w := got[i], want[i]
		if g.Action.String() != w.action || g.Address != w.address || g.Bytes != w.bytes {
			t.Errorf("%s: event %d is %s %#x %d, the real one %s %#x %d", name, i, g.Action, g.Address, g.Bytes, w.action,
				w.address, w.bytes)
			return
		}
	}
}
