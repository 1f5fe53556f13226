package snapshot

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"strings"
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

// hostile lists cases of A65 to A74 of the adversarial catalogue.
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
		// A68: nesting
		{"million lists", p + strings.Repeat("]", 1_000_000), "containers at once"},
		{"million marks", p + strings.Repeat("(", 1_000_000), "nested deeper"},
		{"deep lists", p + strings.Repeat("]", 3000) + strings.Repeat("a", 2999) + ".", "nested deeper"},
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
		{"address beyond 2^64-1", snap(list(), trace(dict("action", str("alloc"), "addr",
			"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x01", "size", num(1)))), "addr is no integer from 0 to 2^64-1"},
		{"address 2^64-1 and 2 bytes", snap(list(), trace(dict("action", str("alloc"), "addr",
			"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", "size", num(2)))), "its end is beyond 2^63"},
		{"address -1", snap(list(), trace(eventOf("alloc", -1, 1))), "addr is no integer from 0 to 2^64-1"},
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
		{"event twice", snap(list(), trace(strings.Replace(eventOf("alloc", 0, 1), "}", "}\x94", 1), "h\x00")),
			"used already"},
		{"event elsewhere", snap(list(), list(list(eventOf("alloc", 0, 1)+"\x85"))), "where none belongs"},
		{"event in traces", snap(list(), list(list(), eventOf("alloc", 0, 1))), "no list of events"},
	}
}

// laughs is a list of two times a list of two times ... n deep: 2^n leaves.
func laughs(n int) string {
	s := "\x80\x04" + "}(" + str("segments") + "]" + str("device_traces") + "]" + str("allocator_settings") + "}(" + str("x") +
		"]\x94"
	for i := range n {
		s += "](" + "h" + string([]byte{byte(i)}) + "h" + string([]byte{byte(i)}) + "e\x94"
	}
	// Every list but the last is on the stack as well: gather them under other keys.
	vals := ""
	for range n {
		vals += "\x86"
	}
	return s + vals + "uu."
}
