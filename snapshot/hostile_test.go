package snapshot

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/memestimate/memestimate/test/must"
)

// Each hostile file is refused with one
// line that says where, and costs next to nothing.
func TestHostile(t *testing.T) {
	for _, c := range hostile() {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Read(strings.NewReader(c.file), Options{})
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: read as %+v, wanted %q", c.name, s, c.want)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: says %q, wanted %q", c.name, err, c.want)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20+24*uint64(len(c.file)) {
			t.Errorf("%s: allocates %d bytes for a file of %d", c.name, n, len(c.file))
		}
	}
}

// What is odd but possible is read; keys that nobody knows are passed over.
func TestOdd(t *testing.T) {
	big := "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01"
	file := snap(
		list(segmentOf(3, 4096, 1024, dict("size", num(512), "state", str("active_allocated")),
			dict("size", num(512), "state", str("inactive"), "new", "\x88"))),
		list(list(), list(
			eventOf("alloc", 4096, 100, "time_us", num(7), "colour", "(K\x01N\x89t"),
			eventOf("teleport", 1, 2, "time_us", num(3), "category", str("\xed\xa0\x80")),
			eventOf("alloc", 4608, 100, "compile_context", "N", "huge", big, "nan", "G\x7f\xf8\x00\x00\x00\x00\x00\x01", "inf",
				"G\xff\xf0\x00\x00\x00\x00\x00\x00"),
			dict("action", str("oom"), "device_free", num(5), "size", num(6), "frames",
				list(dict("name", str("f"), "filename", str("g"), "line", num(1), "fx", str("h")))),
		)),
		"version", num(9), "allocator_settings", dict("a",
			"}"), "external_annotations", list(dict("name", str("n"), "stage", str("START"), "device", num(0), "time_us",
			num(1), "x", "N")),
	)
	s, err := Read(strings.NewReader(file), Options{})
	must.OK(t, err)
	if len(s.Traces) != 2 || s.Traces[1].Len() != 4 || s.Segments[0].Device != 3 ||
		s.Segments[0].Blocks[0].Requested != 512 || s.Segments[0].Blocks[1].Addr != 4608 {
		t.Errorf("read as %+v", s)
	}
	if a := s.Traces[1].At(1); s.ActionName(a.Action) != "teleport" || a.Time != 3 {
		t.Errorf("unknown action read as %+v", a)
	}
	if !bytes.Equal(written(t, s), written(t, reread(t, written(t, s)))) {
		t.Error("round trip gives another snapshot")
	}
	own := "\x80\x04" + dict("segments", list(), "allocator_settings", dict("x", "]\x94h\x00a")) + "."
	for _, file := range []string{laughs(30), own} { // what is shared, or holds itself, is never copied
		if _, err := Read(strings.NewReader(file), Options{}); err != nil {
			t.Error(err)
		}
	}
}

// A reader that breaks, or a file that ends, is an error wherever that happens,
// never a shorter snapshot.
func TestCut(t *testing.T) {
	odd, err := filepath.Glob("testdata/odd/*.pickle")
	if err != nil || len(odd) != 10 {
		t.Fatal(odd, err)
	}
	for _, path := range odd {
		data := must.Read(t, path)
		for n := range len(data) {
			if _, err := Read(bytes.NewReader(data[:n]), Options{}); err == nil {
				t.Fatalf("%s: cut at %d of %d bytes it still reads", path, n, len(data))
			}
		}
	}
	data := unpacked(t, "mem_track_1_model")
	broken := errors.New("broken")
	for n := range len(data) {
		if _, err := Read(bytes.NewReader(data[:n]), Options{}); err == nil {
			t.Fatalf("cut at %d of %d bytes it still reads", n, len(data))
		}
		if n%7 == 0 {
			if _, err := Read(io.MultiReader(bytes.NewReader(data[:n]), iotest.ErrReader(broken)), Options{}); !errors.Is(err,
				broken) {
				t.Fatalf("reader breaks at %d: %v", n, err)
			}
		}
	}
	if _, err := Read(iotest.OneByteReader(bytes.NewReader(data)), Options{}); err != nil {
		t.Errorf("byte by byte: %v", err)
	}
	if _, err := Read(bytes.NewReader(written(t, reread(t, data))), Options{MaxBytes: 1000}); err == nil ||
		!strings.Contains(err.Error(), "longer than 1000 bytes") {
		t.Errorf("limit: %v", err)
	}
}

// A trace that cannot have happened is an error; a recording that begins in the
// middle, or leaves events out, is not.
func TestImpossibleHistory(t *testing.T) {
	seg := list(segmentOf(0, 0, 2<<20, blockOf(0, 2<<20, "inactive")))
	for _, c := range []struct {
		name, traces, want string
		exact              bool
	}{
		{"double free", trace(eventOf("alloc", 0, 512), eventOf("free_completed", 0, 512),
			eventOf("free_completed", 0, 512)), "free already", false},
		{"double request", trace(eventOf("alloc", 0, 512), eventOf("free_requested", 0, 512),
			eventOf("free_requested", 0, 512)), "free already", false},
		{"freed from before", trace(eventOf("free_requested", 0, 512), eventOf("free_completed", 0, 512)), "", true},
		{"frees alone", trace(eventOf("free_completed", 0, 512), eventOf("free_completed", 0, 512)), "", false},
		{"two allocations", trace(eventOf("alloc", 0, 512), eventOf("alloc", 0, 512)), "", false},
		{"time backwards", trace(eventOf("alloc", 0, 512, "time_us", num(9)),
			eventOf("free_completed", 0, 512, "time_us", num(1))), "", true},
	} {
		s, err := Read(strings.NewReader(snap(seg, c.traces)), Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		h, err := s.History(0)
		switch {
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: %v, wanted %q", c.name, err, c.want)
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "" && h.Exact != c.exact:
			t.Errorf("%s: exact %v, doubts %q", c.name, h.Exact, h.Doubts)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(unpacked(f, "mem_track_0"))
	f.Add(written(f, load(f, "mem_track_0")))
	f.Add([]byte(laughs(10)))
	for _, c := range hostile() {
		if len(c.file) < 10_000 {
			f.Add([]byte(c.file))
		}
	}
	f.Add([]byte(snap(list(segmentOf(0, 0, 1024, blockOf(0, 1024, "inactive"))),
		trace(eventOf("alloc", 0, 1, "frames", list())))))
	f.Fuzz(func(t *testing.T, data []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := Read(bytes.NewReader(data), Options{MaxBytes: 1 << 20})
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 2<<20+64*uint64(min(len(data), 1<<20)) &&
			!bytes.HasPrefix(data, []byte{0x1f}) {
			t.Errorf("allocates %d bytes for %d", n, len(data))
		}
		if err != nil {
			return
		}
		again := reread(t, written(t, s)) // where blocks without frames have empty ones, as PyTorch writes them
		first := written(t, again)
		if second := written(t, reread(t, first)); !bytes.Equal(first, second) {
			t.Error("round trip gives another snapshot")
		}
		for d := range min(s.Devices(), 4) {
			if _, err := s.History(d); err == nil {
				if _, _, err := s.At(d, 1<<30); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
