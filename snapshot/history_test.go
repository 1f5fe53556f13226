package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// odd loads a file of testdata/odd: real layouts that PyTorch's own runs rarely leave.
func odd(t testing.TB, name string) *Snapshot {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "odd", name+".pickle"))
	must.OK(t, err)
	defer f.Close()
	s, err := Read(f, Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// falling takes segments at ever lower addresses, each for one block.
func falling(n int) *Snapshot {
	b := NewBuilder(1)
	for i := range int64(n / 2) {
		at := 1<<46 - (i+1)<<21
		b.Event(0, Event{Action: SegmentAlloc, Addr: at, Size: 2 << 20}, 0)
		b.Event(0, Event{Action: Alloc, Addr: at, Size: 512}, 0)
	}
	s := b.Snapshot()
	for i := range n / 2 {
		at := s.Traces[0].At(2 * i).Addr
		s.Segments = append(s.Segments, Segment{Addr: at, Total: 2 << 20, Small: true, Blocks: []Block{
			{Addr: at, Size: 512, Requested: 512, State: ActiveAllocated}, {Addr: at + 512, Size: 2<<20 - 512}}})
	}
	return s
}

// churn has n/3 blocks in use, frees them from the front and takes them again.
func churn(n int) *Snapshot {
	b := NewBuilder(1)
	g := Segment{Addr: 1 << 30, Total: int64(n/3) * minBlock, Expandable: true}
	for i := range int64(n / 3) {
		at := g.Addr + i*minBlock
		g.Blocks = append(g.Blocks, Block{Addr: at, Size: minBlock, Requested: minBlock, State: ActiveAllocated})
		b.Event(0, Event{Action: FreeRequested, Addr: at, Size: minBlock}, 0)
		b.Event(0, Event{Action: FreeCompleted, Addr: at, Size: minBlock}, 0)
	}
	for i := range int64(n / 3) {
		b.Event(0, Event{Action: Alloc, Addr: g.Addr + i*minBlock, Size: minBlock}, 0)
	}
	s := b.Snapshot()
	s.Segments = []Segment{g}
	return s
}

// Traces that take and free in an unkind order are played exactly.
func TestUnkindOrder(t *testing.T) {
	const n = 30_000
	for name, s := range map[string]*Snapshot{"falling": falling(n), "churn": churn(n)} {
		h, err := s.History(0)
		if err != nil || !h.Exact {
			t.Fatalf("%s: %v, %q", name, err, h.Doubts)
		}
		if f := s.Figures(0); h.End.Allocated != f.Allocated || h.End.Reserved != f.Reserved || f.Allocated == 0 {
			t.Errorf("%s ends with %+v, the segments have %+v", name, h.End, f)
		}
	}
}

// What was freed before the recording began, and waits for another stream, is
// not allocated; a file without events knows no peak.
func TestPendingBefore(t *testing.T) {
	s := odd(t, "pending_before_trace")
	h, err := s.History(0)
	must.OK(t, err)
	if h.Start.Allocated != 10<<20 || h.Start.Active != 20<<20 || h.Start.Count != 1 || h.Allocated.Bytes != 10<<20 ||
		!h.Exact || h.Recorded {
		t.Errorf("%+v", h)
	}
	for _, name := range []string{"empty_trace", "no_devices", "list-of-segments", "torch2.0_history_no_trace"} {
		h, err := odd(t, name).History(0)
		if err != nil || h.Recorded || h.End.Allocated != 12<<20 || !h.Exact {
			t.Errorf("%s: %v, %+v", name, err, h)
		}
	}
}

// Of a block that was made before the recording and freed in it, the file does
// not tell how much it took, where it could have had more than it asked for.
func TestUnsureBlocks(t *testing.T) {
	const mib = 1 << 20
	g := segmentOf(0, 0, 20*mib, blockOf(0, 20*mib, "inactive"))
	for _, c := range []struct {
		what      string
		addr, ask int64
		unsure    int64
	}{
		{"all of the segment", 0, 20 * mib, 0},
		{"at its end", 15 * mib, 5 * mib, 0},
		{"something is behind it", 0, 4 * mib, mib},
		{"little is behind it", 0, 20*mib - 4096, 4096},
		{"a small one", 0, 512, 0},
	} {
		s := reread(t, []byte(snap(list(g), trace(eventOf("free_requested", c.addr, c.ask),
			eventOf("free_completed", c.addr, c.ask)))))
		h, err := s.History(0)
		must.OK(t, err)
		if h.Unsure != c.unsure || h.Exact != (c.unsure == 0) {
			t.Errorf("%s: unsure by %d, wanted %d; exact %v, %q", c.what, h.Unsure, c.unsure, h.Exact, h.Doubts)
		}
	}
	// The second half of a free alone: it was asked for before, where the file has the first halves.
	s := reread(t, []byte(snap(list(g), trace(eventOf("free_completed", 0, 20*mib), eventOf("alloc", 0, 20*mib),
		eventOf("free_requested", 0, 20*mib), eventOf("free_completed", 0, 20*mib)))))
	h, err := s.History(0)
	if err != nil || h.Start.Allocated != 0 || h.Start.Active != 20*mib || !h.Exact {
		t.Errorf("%v: %+v", err, h)
	}
}

// Other spellings of a snapshot are read: those of PyTorch's documentation, of
// its earlier versions, and of torch.cuda.memory_snapshot.
func TestSpellings(t *testing.T) {
	if f := odd(t, "list-of-segments").Figures(0); f.Allocated != 12<<20 || f.Reserved != 20<<20 {
		t.Errorf("a list of segments: %+v", f)
	}
	if f := odd(t, "docs_state_active_awaiting_free").Figures(0); f.Blocks[PendingFree].Count == 0 {
		t.Errorf("active_awaiting_free: %+v", f)
	}
	old := odd(t, "torch2.0_history_no_trace")
	b := old.Segments[0].Blocks[0]
	if b.Requested != 12582812 || !strings.HasSuffix(old.Site(b.Stack), ":legacy_alloc") {
		t.Errorf("PyTorch 2.0's block: %+v at %s", b, old.Site(b.Stack))
	}
	for _, name := range []string{"list-of-segments", "torch2.0_history_no_trace", "annot_metadata", "no_devices"} {
		s := odd(t, name)
		if first := written(t, s); !bytes.Equal(first, written(t, reread(t, first))) {
			t.Errorf("%s: read, write, read gives another snapshot", name)
		}
	}
}

// What no UTF-8 is gets written so that Python reads it, and one sees which bytes it was.
func TestInvalidText(t *testing.T) {
	b := NewBuilder(1)
	b.Event(0, Event{Action: Alloc, Addr: 512, Size: 1, Stack: b.Stack(Frame{Name: "a\xffb", File: "\xed\xa0\x80"})}, 0)
	file := written(t, b.Snapshot())
	want := snap(list(), trace(dict("action", str("alloc"), "addr", num(512), "size", num(1), "stream", num(0), "time_us",
		num(0),
		"compile_context", str("N/A"), "user_metadata", str(""), "category", str(""), "frames", list(dict("name", str(`a\xffb`), "filename",
			str("\xed\xa0\x80"), "line", num(0))))),
		"allocator_settings", dict("PYTORCH_CUDA_ALLOC_CONF", str("")), "external_annotations", list())
	samePython(t, "invalid text", []byte(want), file)
}

// The free space of an allocator is counted by what can have it.
func TestFreeSpaces(t *testing.T) {
	s := odd(t, "oomfrag")
	h, err := s.History(0)
	if err != nil || len(h.OOMs) != 1 {
		t.Fatal(err, h)
	}
	_, state, err := s.At(0, h.OOMs[0].Event)
	must.OK(t, err)
	var text []string
	for _, f := range FreeSpaces(state) {
		text = append(text, fmt.Sprintf("stream %d: %d in %d of up to %d, serves %v", f.Stream, f.Bytes, f.Pieces, f.Largest,
			f.Serves(h.OOMs[0].Stream, h.OOMs[0].Tried)))
	}
	if got := strings.Join(text, "\n"); got != "stream 7: 205520896 in 2 of up to 102760448, serves false" {
		t.Error(got)
	}
}

// What a tensor is for does not depend on what came after it: a recording of the
// first steps and one of more steps tell the same of the same tensors.
func TestCategoriesOfTwoRecordings(t *testing.T) {
	long := load(t, "resnet50_seed")
	whole, err := long.Play(0)
	must.OK(t, err)
	short := load(t, "resnet50_seed")
	cut := new(Trace)
	for i, e := range short.Traces[0].All() {
		if i == 2500 { // in the second forward pass
			break
		}
		cut.Add(*e)
	}
	short.Traces[0] = cut
	// What the cut recording's segments were, so that both begin alike.
	if _, short.Segments, err = long.At(0, 2499); err != nil {
		t.Fatal(err)
	}
	part, err := short.Play(0)
	must.OK(t, err)
	if !part.History.Exact || part.Log.Len() < 1000 {
		t.Fatalf("%d events, %q", part.Log.Len(), part.History.Doubts)
	}
	all := slices.Collect(whole.Log.Events)
	for i, e := range part.Log.Source().Each {
		if w := all[i]; e != w || part.Number[i] != whole.Number[i] {
			t.Fatalf("event %d is %+v in one, %+v in the other", i, e, w)
		}
	}
	for i, b := range part.Blocks {
		if w := whole.Blocks[i]; b != w {
			t.Fatalf("block %d is %+v in one, %+v in the other", i, b, w)
		}
	}
}
