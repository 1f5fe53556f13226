package recording

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"

	"github.com/memestimate/memestimate/simulate/gpu"
	"github.com/memestimate/memestimate/simulate/kernels"
	"github.com/memestimate/memestimate/test/must"
)

const header = `{"format":"memestimate-recording/1","producer":"test","torch":"2.11.0","gpu":{"name":"h200","capability":[9,0],"multiprocessors":132,"memory":150109880320}}`

// pack compresses lines.
func pack(lines ...string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, l := range lines {
		io.WriteString(z, l+"\n")
	}
	z.Close()
	return b.Bytes()
}

// whole is a recording of these lines, with a header and an end.
func whole(lines ...string) []byte {
	end := `["end",` + itoa(len(lines)) + `]`
	return pack(append(append([]string{header}, lines...), end)...)
}

func itoa(n int) string {
	s := ""
	for ; n > 9; n /= 10 {
		s = string(rune('0'+n%10)) + s
	}
	return string(rune('0'+n)) + s
}

// every is a recording with each word.
var every = []string{
	`["op","aten::addmm","default"]`,
	`["meta","float32",[4,8],[8,1],0]`,
	`["frame",-1,"train.py",12,"<module>"]`,
	`["frame",0,"model.py",3,"forward"]`,
	`["module",-1,"","Net"]`,
	`["module",0,"layer1.0","Linear"]`,
	`["alloc",0,128]`,
	`["is",0,"parameter","layer1.0.weight"]`,
	`["phase","forward"]`,
	`["thread",1]`,
	`["stream",2]`,
	`["call",0,["0:0","c:0",null,true,-3,0.5,"!inf","'sum","!float32",[1,2],["0:0",null],9223372036854775807],["1:0",["0:0",null]],1,1]`,
	`["alloc",1,256]`,
	`["sum",0]`,
	`["record_stream",1,3]`,
	`["resize",1,0]`,
	`["free",1]`,
	`["step"]`,
	`["x-later",{"a":[1]},2]`,
	`["empty_cache"]`,
	`["pool",2]`,
	`["clear_workspaces"]`,
	`["out_of_memory",15655829504]`,
	`["reset_peak"]`,
	`["allocated",512]`,
	`["note","item","read as 0",1]`,
	`["depends","truth","False",-1,1]`,
	`["cudnn","input","float16",true,false,2,[4,8,9,9],[6,4,3,3],[4,6,9,9],[1,1],[1,1],12345]`,
	`["search","forward","float32",false,false,1,[4,8,9,9],[6,8,3,3],[4,6,9,9],[1,1],[1,1],54321,321]`,
	`["nccl",4,1048576,-1,true]`,
	`["communicator",[0,1,5]]`,
	`["communicator",[0]]`,
	`["connect",0,"ring",[]]`,
	`["connect",0,"send",[1,5]]`,
	`["connect",0,"send",[1]]`,
	`["connect",0,"receive",[1]]`,
}

func TestRead(t *testing.T) {
	r, err := Read(bytes.NewReader(whole(every...)))
	must.OK(t, err)
	if r.GPU.Name != "h200" || r.GPU.Multiprocessors != 132 {
		t.Errorf("header %+v", r.Header)
	}
	if got := r.Ops[0].String(); got != "aten.addmm.default" {
		t.Errorf("operator %q", got)
	}
	if want := (Meta{"float32", []int64{4, 8}, []int64{8, 1}, 0}); !reflect.DeepEqual(r.Metas[0], want) {
		t.Errorf("meta %+v", r.Metas[0])
	}
	if want := (Frame{0, 3, "model.py", "forward"}); r.Frames[1] != want {
		t.Errorf("frame %+v", r.Frames[1])
	}
	if want := (Module{"layer1.0", "Linear"}); r.Modules[1] != want {
		t.Errorf("module %+v", r.Modules[1])
	}
	var kinds []Kind
	for _, e := range r.Events {
		kinds = append(kinds, e.Kind)
	}
	want := []Kind{Alloc, Is, Phase, Thread, Stream, CallEvent, Alloc, Sum, RecordStream, Resize, Free, Step, EmptyCache,
		Pool, ClearWorkspaces, OutOfMemory, ResetPeak, Allocated, Note, Depends}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
	if e := r.Events[1]; e.What != uint8(Parameter) || r.Texts[e.B] != "layer1.0.weight" {
		t.Errorf("is %+v", e)
	}
	if e := r.Events[len(r.Events)-2]; r.Texts[e.A] != "item" || r.Texts[e.B] != "read as 0" || e.Bytes != 1 {
		t.Errorf("note %+v", e)
	}
	a := r.Asks[r.Events[len(r.Events)-1].A]
	if a.Question != Truth || r.Texts[a.Taken] != "False" || a.Bytes != Unweighed || a.Frame != 1 || a.More != Unweighed {
		t.Errorf("depends %+v", a)
	}
	answer := Answer{kernels.ConvBackwardInput, kernels.ConvShape{Elem: 2, Float16: true, ChannelsLast: true,
		Groups: 2, X: []int64{4, 8, 9, 9}, W: []int64{6, 4, 3, 3}, Y: []int64{4, 6, 9, 9}, Stride: []int64{1, 1},
		Dilation: []int64{1, 1}}, 12345}
	if got, want := r.Connected(), []gpu.Communicator{{Ranks: 3, Ring: true, Sends: 1, Receives: 1}, {Ranks: 1}}; // of 4 on a host
	!reflect.DeepEqual(got, want) || !r.Beyond(&r.Communicators[0]) || r.Beyond(&r.Communicators[1]) ||
		r.NCCL.Buffer != 1<<20 || r.NCCL.Channels != -1 || !r.NCCL.Direct {
		t.Errorf("communicators %+v, %+v", got, r.NCCL)
	}
	if !reflect.DeepEqual(r.Answers, []Answer{answer}) {
		t.Errorf("answers %+v", r.Answers)
	}
	c := &r.Calls[0]
	if c.Frame != 1 || c.Module != 1 {
		t.Errorf("call %+v", c)
	}
	args := r.Args(c)
	var is []ValueKind
	for _, v := range args {
		is = append(is, v.Kind())
	}
	if w := []ValueKind{Tensor, Tensor, None, Bool, Int, Float, Float, Text, Word, List, Int, Int, List, Tensor, None,
		Int}; !reflect.DeepEqual(is, w) {
		t.Fatalf("arguments %v, want %v", is, w)
	}
	if s, ok := args[0].Storage(); s != 0 || !ok || args[0].Meta() != 0 {
		t.Error("a tensor on the GPU")
	}
	if _, ok := args[1].Storage(); ok {
		t.Error("a tensor on the CPU has a storage")
	}
	if args[3].Int() != 1 || args[4].Int() != -3 || args[5].Float() != 0.5 || !math.IsInf(args[6].Float(), 1) ||
		args[4].Float() != -3 {
		t.Error("numbers")
	}
	if r.Texts[args[7].Text()] != "sum" || r.Texts[args[8].Text()] != "float32" || args[9].Len() != 2 ||
		args[15].Int() != maxInt {
		t.Error("texts and lists")
	}
	if res := r.Results(c); len(res) != 3 || res[2].Kind() != None {
		t.Errorf("results %v", res)
	} else if s, _ := res[0].Storage(); s != 1 {
		t.Errorf("result in storage %d", s)
	}
}

// What is no recording is refused in one line that says where.
func TestRefused(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "cut off"},
		{"no gzip", []byte(`{"format":"memestimate-recording/1"}`), "not compressed with gzip"},
		{"no text", pack(), "line 1: the recording is cut off"},
		{"a list", pack(`[1]`), "line 1: no recording"},
		{"another", pack(`{"a":1}`), `its format is ""`},
		{"a later version", pack(`{"format":"memestimate-recording/2"}`), "not known to this version"},
		{"a header twice", pack(`{"format":"a","format":"b"}`), "line 1: no JSON: duplicate"},
		{"a header of another type", pack(`{"format":7}`), `the header's "/format"`},
		{"no end", pack(header, `["step"]`), "line 3: the recording is cut off"},
		{"cut in a line", pack(header, `["alloc",0,`), "line 2: the recording is cut off"},
		{"cut in gzip", whole(every...)[:200], "cut off"},
		{"a damaged byte", damaged(whole(every...)), "damaged"},
		{"lines missing", pack(header, `["step"]`, `["end",2]`),
			"line 3: 1 lines are between the first and the last, which says 2"},
		{"more behind the end", pack(header, `["end",0]`, `["step"]`), "line 3: more follows"},
		{"no list", whole(`{"a":1}`), "line 2: a line that is no list"},
		{"no word", whole(`[1]`), "line 2: wanted a string"},
		{"an unknown word", whole(`["alocc",0,1]`), `line 2: unknown word "alocc"`},
		{"too much in a line", whole(`["step",1]`), "line 2: more values than wanted"},
		{"too little in a line", whole(`["alloc",0]`), "line 2: a size in bytes is no number"},
		{"a storage out of order", whole(`["alloc",1,1]`), "line 2: storage 1 begins, wanted 0"},
		{"a negative size", whole(`["alloc",0,-1]`), "line 2: a size in bytes is -1"},
		{"a size of 70 bits", whole(`["alloc",0,1180591620717411303424]`), "wanted a whole number of 64 bits"},
		{"a size beyond memory", whole(`["alloc",0,1125899906842625]`), "more than any computer has"},
		{"a size with a point", whole(`["alloc",0,1.5]`), "wanted a whole number"},
		{"a weight below none", whole(`["depends","truth","False",-2,-1]`), "line 2: a weight of -2 bytes, wanted -1 to"},
		{"less than no more", whole(`["depends","truth","False",0,-1,-2]`), "line 2: a weight of -2 bytes, wanted -1 to"},
		{"an answer about no pass", whole(`["cudnn","loss","float32",true,false,1,[],[],[],[],[],1]`), `a pass is "loss"`},
		{"an answer about integers", whole(`["cudnn","input","int8",true,false,1,[],[],[],[],[],1]`), `type is "int8"`},
		{"an answer with numbers for flags", whole(`["cudnn","input","float32",1,0,1,[],[],[],[],[],1]`),
			"wanted true or false"},
		{"an answer below none", whole(`["cudnn","input","float32",true,false,1,[],[],[],[],[],-1]`), "wanted 0 or more"},
		{"a search without what it finds", whole(`["search","input","float32",true,false,1,[],[],[],[],[],1]`),
			"line 2: a size in bytes is no number"},
		{"another question", whole(`["depends","why","False",0,-1]`), `a question is "why"`},
		{"free of none", whole(`["free",0]`), "line 2: storage 0, of 0"},
		{"free twice", whole(`["alloc",0,1]`, `["free",0]`, `["free",0]`), "line 4: storage 0 was freed before"},
		{"sizes and strides", whole(`["meta","float32",[1,2],[1],0]`), "2 sizes and 1 strides"},
		{"a negative stride", whole(`["meta","float32",[1,2],[1,-1],0]`), "a stride is -1"},
		{"overflowing sizes", whole(`["meta","float32",[4294967296,4294967296],[1,1],0]`),
			"larger than any computer's memory"},
		{"overflowing strides", whole(`["meta","float32",[2,2],[9223372036854775807,9223372036854775807],0]`),
			"larger than any computer's memory"},
		{"65 dimensions", whole(`["meta","float32",[` + strings.Repeat("1,", 64) + `1],[],0]`), "more than 64 dimensions"},
		{"an unknown operator", whole(`["call",0,[],[],-1,-1]`), "operator 0, of 0"},
		{"an unknown layout", whole(`["op","aten::a",""]`, `["call",0,["c:0"],[],-1,-1]`), "layout 0, of 0"},
		{"an unknown frame", whole(`["op","aten::a",""]`, `["call",0,[],[],0,-1]`), "frame 0, of 0"},
		{"an unknown module", whole(`["op","aten::a",""]`, `["call",0,[],[],-1,3]`), "module 3, of 0"},
		{"a frame before its parent", whole(`["frame",0,"a.py",1,"f"]`), "frame 0, of 0"},
		{"a dead argument", whole(every[0], every[1], `["alloc",0,1]`, `["free",0]`, `["call",0,["0:0"],[],-1,-1]`),
			"storage 0 was freed before"},
		{"a result that is never born", whole(every[0], every[1], `["call",0,[],["0:0"],-1,-1]`, `["step"]`),
			"line 4: a result of the call is storage 0"},
		{"a result far ahead", whole(every[0], every[1], `["call",0,[],["7:0"],-1,-1]`), "storage 7, wanted at most 0"},
		{"lists in lists", whole(every[0], `["call",0,[[[1]]],[],-1,-1]`), "a list in a list"},
		{"an object", whole(every[0], `["call",0,[{}],[],-1,-1]`), "an object among"},
		{"an empty text", whole(every[0], `["call",0,[""],[],-1,-1]`), "an empty string"},
		{"no tensor", whole(every[0], `["call",0,["a:b"],[],-1,-1]`), `"a:b" among`},
		{"a phase", whole(`["phase","lunch"]`), `a phase is "lunch", wanted one of forward`},
		{"a role", whole(`["alloc",0,1]`, `["is",0,"gift","x"]`), `a kind of storage is "gift"`},
		{"a sum of nothing", whole(`["alloc",0,1]`, `["sum",1]`), "storage 1, of 1"},
		{"a communicator of nothing", whole(`["communicator",[0]]`), "a communicator before the line nccl"},
		{"a communicator that is none", whole(`["nccl",8,-1,-1,true]`, `["connect",0,"ring",[]]`), "communicator 0, of 0"},
		{"a connection", whole(`["nccl",8,-1,-1,true]`, `["communicator",[0]]`, `["connect",0,"tree",[]]`),
			`a connection is "tree", wanted one of ring`},
		{"a negative rank", whole(`["nccl",8,-1,-1,true]`, `["communicator",[-1]]`), "a rank is -1"},
		{"escapes in a message", whole(`["\u001b[31m"]`), `unknown word "\x1b[31m"`},
		{"a bomb", pack(header, strings.Repeat(" ", 64<<20)), "unpacks to more text"},
		{"a long string", whole(`["phase","` + strings.Repeat("a", maxName+1) + `"]`), "a string of"},
	}
	for _, tt := range tests {
		_, err := Read(bytes.NewReader(tt.file))
		var bad *FormatError
		switch {
		case !errors.As(err, &bad):
			t.Errorf("%s: %v, want a FormatError", tt.name, err)
		case !strings.Contains(err.Error(), tt.want):
			t.Errorf("%s: %q, want %q in it", tt.name, err, tt.want)
		case strings.ContainsAny(err.Error(), "\n\x1b"):
			t.Errorf("%s: %q is no plain line", tt.name, err)
		}
	}
}

func damaged(b []byte) []byte {
	b = bytes.Clone(b)
	b[len(b)-6] ^= 1 // of the checksum
	return b
}

// An error of the reader is handed on as it is.
func TestReadError(t *testing.T) {
	disk := errors.New("disk on fire")
	_, err := Read(io.MultiReader(bytes.NewReader(whole(every...)[:100]), iotest.ErrReader(disk)))
	if !errors.Is(err, disk) {
		t.Errorf("%v, want %v", err, disk)
	}
}

// Memory is at most a small multiple of the text, whatever the lines are.
func TestMemory(t *testing.T) {
	lines := map[string]func(i int) string{
		"births and deaths": func(i int) string { return `["alloc",` + itoa(i) + `,0]` + "\n" + `["free",` + itoa(i) + `]` },
		"steps":             func(int) string { return `["step"]` },
		"layouts":           func(int) string { return `["meta","",[],[],0]` },
		"arguments":         func(int) string { return `["call",0,[` + strings.Repeat("0,", 999) + `0],[],-1,-1]` },
		"calls":             func(int) string { return `["call",0,[],[],-1,-1]` },
		"communicators":     func(int) string { return `["nccl",8,-1,-1,true]` + "\n" + `["communicator",[1,2,3]]` },
		"names":             func(i int) string { return `["op","` + itoa(i) + `",""]` },
	}
	for name, line := range lines {
		var text bytes.Buffer
		text.WriteString(header + "\n" + `["op","a",""]` + "\n")
		n := 1
		for i := 0; text.Len() < 8<<20; i++ {
			l := line(i)
			text.WriteString(l + "\n")
			n += 1 + strings.Count(l, "\n")
		}
		text.WriteString(`["end",` + itoa(n) + `]`)
		file := pack(text.String())
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Read(bytes.NewReader(file))
		runtime.ReadMemStats(&after)
		if err != nil {
			if strings.Contains(err.Error(), "unpacks to more") {
				continue // so alike that it is taken for a bomb
			}
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 32*uint64(text.Len()) {
			t.Errorf("%s: %d bytes for %d of text", name, took, text.Len())
		}
	}
}

func TestBegins(t *testing.T) {
	file := whole(every...)
	for _, n := range []int{256, 512, len(file)} {
		if !Begins(file[:min(n, len(file))]) {
			t.Errorf("the first %d bytes of a recording are none", n)
		}
	}
	for _, other := range [][]byte{nil, {0x1f}, []byte("\x1f\x8b"), pack(`{"nodes":1}`), pack("segments"),
		[]byte(header)} {
		if Begins(other) {
			t.Errorf("%.20q begins a recording", other)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(strings.Join(append(append([]string{header}, every...), `["end",23]`), "\n")))
	for _, l := range every {
		f.Add([]byte(header + "\n" + l + "\n" + `["end",1]`))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(bytes.NewReader(pack(string(text))))
		if err != nil {
			if _, ok := errors.AsType[*FormatError](err); !ok {
				t.Errorf("%v is no FormatError", err)
			}
			return
		}
		for i := range r.Calls {
			c := &r.Calls[i]
			args := r.Args(c)
			for k := 0; k < len(args); k++ {
				if args[k].Kind() == List {
					k += args[k].Len()
				} else if args[k].Kind() == Tensor && int(args[k].Meta()) >= len(r.Metas) {
					t.Error("a layout that is not there")
				}
			}
			_ = r.Ops[c.Op].String()
		}
	})
}
