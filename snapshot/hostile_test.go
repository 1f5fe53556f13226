package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

// u32 and u64 are little endian operands.
func u32(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
func u64(n uint64) string { return string(binary.LittleEndian.AppendUint64(nil, n)) }

// str is a short string.
func str(s string) string { return "\x8c" + string([]byte{byte(len(s))}) + s }

// num is an integer.
func num(n int64) string { return "\x8a\x08" + u64(uint64(n)) }

// dict is a dict of keys and values that are opcodes already, except the keys.
func dict(kv ...string) string {
	out := "}("
	for i, s := range kv {
		if i%2 == 0 {
			s = str(s)
		}
		out += s
	}
	return out + "u"
}

func list(items ...string) string {
	if len(items) == 0 {
		return "]"
	}
	return "](" + strings.Join(items, "") + "e"
}

// snap is a whole file.
func snap(segments, traces string, more ...string) string {
	return "\x80\x04" + dict(append([]string{"segments", segments, "device_traces", traces}, more...)...) + "."
}

func eventOf(action string, addr, size int64, more ...string) string {
	return dict(append([]string{"action", str(action), "addr", num(addr), "size", num(size), "stream", num(0)},
		more...)...)
}

func trace(events ...string) string { return list(list(events...)) }

func blockOf(addr, size int64, state string, more ...string) string {
	return dict(append([]string{"address", num(addr), "size", num(size), "state", str(state)}, more...)...)
}

func segmentOf(device, addr, total int64, blocks ...string) string {
	return dict("device", num(device), "address", num(addr), "total_size", num(total), "allocated_size", num(0), "stream",
		num(0), "blocks", list(blocks...))
}

// gz compresses a file.
func gz(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, s)
	z.Close()
	return b.String()
}

// hostile lists the cases A65 to A74 of the adversarial catalogue.
func hostile() []struct{ name, file, want string } {
	p := "\x80\x04"
	return []struct{ name, file, want string }{
		// A65: code
		{"global reduce", "\x80\x02cos\nsystem\nX\x02\x00\x00\x00lsR.", `offset 2: the file asks for "os.system"; refusing`},
		{"stack global", p + str("os") + str("system") + "\x93" + str("ls") + "\x85R.",
			`the file asks for "os.system"; refusing`},
		{"stack global on nothing", p + "\x93.", "STACK_GLOBAL"},
		{"inst", p + "(ios\nsystem\n.", `the file asks for "os.system"; refusing`},
		{"global without lines", p + "cos", "GLOBAL"},
		{"obj", p + "(No.", "OBJ"},
		{"build", p + "}}b.", "BUILD"},
		{"reduce", p + "N)R.", "REDUCE"},
		{"newobj", p + "N)\x81.", "NEWOBJ"},
		{"newobj_ex", p + "N)}\x92.", "NEWOBJ_EX"},
		{"ext1", p + "\x82\x01.", "EXT1"},
		{"ext4", p + "\x84\x01\x00\x00\x00.", "EXT4"},
		{"persid", p + "Pabc\n.", "PERSID"},
		{"binpersid", p + "NQ.", "BINPERSID"},
		{"next buffer", "\x80\x05\x97.", "NEXT_BUFFER"},
		{"global deep inside", snap(list(), trace("cos\nsystem\n")), `"os.system"`},
		// A66: lengths that are not there
		{"long4 2^31-1", p + "\x8b" + u32(1<<31-1), "integer of 2147483647 bytes"},
		{"long4 -1", p + "\x8b" + u32(1<<32-1), "integer of -1 bytes"},
		{"binbytes8", p + "\x8e" + u64(1<<62), "BINBYTES8"},
		{"frame 2^40", p + "\x95" + u64(1<<40) + "N.", "frame"},
		{"frame 2^63", p + "\x95" + u64(1<<63) + "N.", "frame"},
		{"frame cut", p + "\x95" + u64(100) + "N.", "frame"},
		{"frame in frame", p + "\x95" + u64(20) + "\x95" + u64(2) + "N.", "frame within a frame"},
		{"binunicode 3 GB", p + "X" + u32(3<<30) + "abc", "string of 3221225472 bytes"},
		{"binunicode 60 MB", p + "X" + u32(60<<20) + "abc", "string of 62914560 bytes"},
		{"binunicode 15 MB", p + "X" + u32(15<<20) + "abc", "ends in the middle"},
		{"binunicode8", p + "\x8d" + u64(1<<63), "string of 9223372036854775808 bytes"},
		{"memo index 2^31", p + "]r" + u32(1<<31), "out of reach"},
		// A67: what is shared is not copied, and unfolds within bounds
		{"laughs", laughs(30), "unfold"},
		// A68: nesting
		{"million lists", p + strings.Repeat("]", 1_000_000), "containers at once"},
		{"million marks", p + strings.Repeat("(", 1_000_000), "nested deeper"},
		{"deep lists", p + strings.Repeat("]", 3000) + strings.Repeat("a", 2999) + ".", "nested deeper"},
		{"own element", p + dict("segments", list(), "device_traces", list(), "x", "]\x94h\x00a") + ".", "holds itself"},
		{"own value", p + "}\x94(" + str("segments") + "]" + str("device_traces") + "]" + str("x") + "h\x00u.",
			"where none belongs"},
		// A69: a broken machine
		{"memo key", p + "h\x05.", "offset 4: asks for memo entry 5 of 0"},
		{"memo number", p + "K\x01\x94.", "memoizes a number"},
		{"memo nothing", p + "\x94.", "empty stack"},
		{"stop on nothing", p + ".", "ends with 0 values"},
		{"underflow", p + "a.", "more values"},
		{"tuple underflow", p + "N\x87.", "more values"},
		{"mark misuse", p + "](a.", "more values"},
		{"no mark", p + "]Ne.", "MARK that is not there"},
		{"open mark", p + "}(.", "1 MARKs"},
		{"append to dict", p + "}Na.", "no open container"},
		{"setitem on list", p + "]NNs.", "no open container"},
		{"odd dict", p + "}(Nu.", "key without a value"},
		{"after stop", snap(list(), list()) + "N", "more bytes after the end"},
		{"two pickles", snap(list(), list()) + snap(list(), list()), "more bytes after the end"},
		{"header twice", p + p + "}.", "second pickle header"},
		{"protocol 9", "\x80\x09}.", "protocol 9, wanted 2 to 5"},
		{"protocol 0", "(dp0\n.", "not a pickle of protocol 2 to 5"},
		{"no opcode", p + "\xff.", "0xff is no pickle opcode"},
		{"two values", p + "NN.", "ends with 2 values"},
		// A70: other files
		{"empty", "", "empty file"},
		{"zip", "PK\x03\x04....", "zip archive"},
		{"text", "hello", `starts with "hello"`},
		{"json", `{"segments":[]}`, "JSON text"},
		{"onnx", "\x08\x08\x12\x07pytorch", "ONNX"},
		{"lfs", "version https://git-lfs.github.com/spec/v1\n", "git lfs pull"},
		{"gzip of gzip", gz(gz(snap(list(), list()))), "gzip within gzip"},
		{"gzip cut", gz(snap(list(), list()))[:40], "unexpected EOF"},
		{"gzip header cut", "\x1f\x8b\x08", "gzip"},
		{"not a dict", p + ").", "its top is no dict"},
		{"list of numbers", p + "](" + strings.Repeat("K\x01", 100) + "e.", "its top is no dict"},
		{"string", p + str("segments") + ".", "its top is no dict"},
		{"another dict", p + dict("a", "N") + ".", "wants segments and device_traces"},
		{"no segments", p + dict("device_traces", list()) + ".", "wants segments and device_traces"},
		{"history no list", snap(list(segmentOf(0, 0, 512, blockOf(0, 512, "active_allocated", "history", "N"))), list()),
			"history is no list"},
		{"history of numbers", snap(list(segmentOf(0, 0, 512, blockOf(0, 512, "active_allocated", "history", list("N")))),
			list()), "history holds what is no dict"},
		{"annotations twice", snap(list(), list(), "external_annotations", list(dict("name", str("a"))),
			"external_annotations", list()), "given twice"},
		{"annotation no dict", snap(list(), list(), "external_annotations", list("N")), "external_annotations: element"},
		// A71: what cannot be
		{"segments no list", snap("N", list()), "segments is no list"},
		{"traces no list", snap(list(), "N"), "device_traces is no list"},
		{"segments twice", snap(list(segmentOf(0, 0, 512)), list(), "segments", list()), "segments given twice"},
		{"traces twice", snap(list(), trace(), "device_traces", list()), "device_traces given twice"},
		{"event no dict", snap(list(), trace("K\x01")), "no event"},
		{"trace no list", snap(list(), list("K\x01")), "no list of events"},
		{"size str", snap(list(), trace(dict("action", str("alloc"), "addr", num(0), "size", str("big")))),
			"size is no 64 bit integer"},
		{"size float", snap(list(), trace(dict("action", str("alloc"), "addr", num(0), "size",
			"G\x40\x00\x00\x00\x00\x00\x00\x00"))), "size is no 64 bit integer"},
		{"size bool", snap(list(), trace(dict("action", str("alloc"), "addr", num(0), "size", "\x88"))),
			"size is no 64 bit integer"},
		{"size negative", snap(list(), trace(eventOf("alloc", 0, -1))), "size is negative"},
		{"address 2^64-1", snap(list(), trace(dict("action", str("alloc"), "addr",
			"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", "size", num(1)))), "addr is no 64 bit integer"},
		{"address at the end", snap(list(), trace(eventOf("alloc", 1<<63-1, 512))), "beyond 2^63"},
		{"no action", snap(list(), trace(dict("addr", num(0), "size", num(1)))), "no action"},
		{"no size", snap(list(), trace(dict("action", str("alloc"), "addr", num(1)))), "no size"},
		{"no addr", snap(list(), trace(dict("action", str("alloc"), "size", num(1)))), "neither addr nor device_free"},
		{"int key", snap(list(), trace("}(K\x01K\x01u")), "key that is no string"},
		{"device -1", snap(list(segmentOf(-1, 0, 512)), list()), "device is no number"},
		{"block gap", snap(list(segmentOf(0, 0, 1024, blockOf(0, 256, "inactive"), blockOf(512, 512, "inactive"))), list()),
			"overlap or leave a gap"},
		{"block outside", snap(list(segmentOf(0, 0, 1024, blockOf(0, 2048, "inactive"))), list()),
			"beyond the segment's end"},
		{"blocks short", snap(list(segmentOf(0, 0, 1024, blockOf(0, 512, "inactive"))), list()), "add up to 512"},
		{"block state", snap(list(segmentOf(0, 0, 512, blockOf(0, 512, "busy"))), list()), "state is none of"},
		{"block no size", snap(list(segmentOf(0, 0, 512, dict("state", str("inactive")))), list()), "wanted size and state"},
		{"segments overlap", snap(list(segmentOf(0, 0, 1024), segmentOf(0, 512, 1024)), list()), "overlap"},
		{"segment end", snap(list(segmentOf(0, 1<<63-1, 1024)), list()), "beyond 2^63"},
		{"segment no address", snap(list(dict("total_size", num(1), "blocks", list())), list()), "wanted address"},
		{"frames no list", snap(list(), trace(eventOf("alloc", 0, 1, "frames", "K\x01"))), "wanted a list of frames"},
		{"frame no frame", snap(list(), trace(eventOf("alloc", 0, 1, "frames", list("K\x01")))), "no frame"},
		{"settings no dict", snap(list(), list(), "allocator_settings", list()), "allocator_settings is no dict"},
		{"annotation type", snap(list(), list(), "external_annotations", list(dict("name", num(1)))), "wrong type"},
		{"event twice", snap(list(), trace(strings.Replace(eventOf("alloc", 0, 1), "}", "}\x94", 1), "h\x00")),
			"used already"},
		{"event elsewhere", snap(list(), list(list(eventOf("alloc", 0, 1)+"\x85"))), "where none belongs"},
		{"event in traces", snap(list(), list(list(), eventOf("alloc", 0, 1))), "no list of events"},
	}
}

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

// laughs is a list of two times a list of two times ... n deep: 2^n leaves.
func laughs(n int) string {
	s := "\x80\x04" + "}(" + str("segments") + "]" + str("device_traces") + "]" + str("x") + "]\x94"
	for i := range n {
		s += "](" + "h" + string([]byte{byte(i)}) + "h" + string([]byte{byte(i)}) + "e\x94"
	}
	// Every list but the last is on the stack as well: gather them under other keys.
	vals := ""
	for range n {
		vals += "\x86"
	}
	return s + vals + "u."
}

// What is odd but possible is read and kept.
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
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Traces) != 2 || s.Traces[1].Len() != 4 || s.Segments[0].Device != 3 ||
		s.Segments[0].Blocks[0].Requested != 512 || s.Segments[0].Blocks[1].Addr != 4608 {
		t.Errorf("read as %+v", s)
	}
	if a := s.Traces[1].At(1); s.ActionName(a.Action) != "teleport" || a.Time != 3 {
		t.Errorf("unknown action read as %+v", a)
	}
	if n := s.Notes[s.Traces[1].At(2).Note]; len(n.Extra) != 4 || n.Extra[1].Value.Kind != Big ||
		n.Extra[1].Value.Text != "\xff\xff\xff\xff\xff\xff\xff\xff\x01" {
		t.Errorf("unknown keys read as %+v", n.Extra)
	}
	if !bytes.Equal(written(t, s), written(t, reread(t, written(t, s)))) {
		t.Error("round trip gives another snapshot")
	}
	samePython(t, "odd", []byte(file), written(t, s))
}

// A reader that breaks, or a file that ends, is an error wherever that happens,
// never a shorter snapshot.
func TestCut(t *testing.T) {
	odd, err := filepath.Glob("testdata/odd/*.pickle")
	if err != nil || len(odd) != 10 {
		t.Fatal(odd, err)
	}
	for _, path := range odd {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
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

// Events can be read without being kept.
func TestVisit(t *testing.T) {
	want := load(t, "oom")
	n := 0
	s, err := Read(bytes.NewReader(unpacked(t, "oom")), Options{Visit: func(s *Snapshot, device int, e *Event) error {
		if w := want.Traces[device].At(n); *e != *w || len(s.Stack(e.Stack)) != len(want.Stack(w.Stack)) {
			return fmt.Errorf("event %d is %+v, wanted %+v", n, *e, *w)
		}
		n++
		return nil
	}})
	if err != nil || n != want.Events() || s.Events() != 0 {
		t.Errorf("%d events visited of %d, %d kept: %v", n, want.Events(), s.Events(), err)
	}
	stop := errors.New("enough")
	if _, err := Read(bytes.NewReader(unpacked(t, "oom")),
		Options{Visit: func(*Snapshot, int, *Event) error { return stop }}); !errors.Is(err, stop) {
		t.Errorf("visit's error became %v", err)
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
		first := written(t, s)
		if second := written(t, reread(t, first)); !bytes.Equal(first, second) {
			t.Error("round trip gives another snapshot")
		}
		for d := range min(s.Devices(), 4) {
			if _, err := s.History(d); err == nil {
				if _, err := s.LiveAt(d, 1<<30); err != nil {
					t.Error(err)
				}
			}
		}
	})
}
