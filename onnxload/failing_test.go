package onnxload_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

func TestFormatErrors(t *testing.T) {
	var f *onnxload.FormatError
	if _, err := onnxload.ReadStream(bytes.NewReader(Safetensors()), onnxload.Options{}); !errors.As(err, &f) ||
		f.Format != "safetensors file" || !strings.HasPrefix(err.Error(), "standard input: ") {
		t.Errorf("%v", err)
	}
	var w *onnxload.WireError
	if _, err := onnxload.ReadStream(bytes.NewReader([]byte("\x08\x0a\x3e\x01")), onnxload.Options{}); !errors.As(err,
		&w) || w.Offset != 2 {
		t.Errorf("%v", err)
	}
}

// What people give for a model instead gets told what to do, not only what it is.
func TestOtherFilesGetHints(t *testing.T) {
	for head, want := range map[string]string{
		"": "broken off", "hello\n": "torch.onnx.export", "import torch\n": "(Python source): export the model",
		"# a net\nclass Net:\n": "(Python source)", `{"a": 1}`: "(JSON): export the model",
		`{"architectures": ["GPT2LMHeadModel"]}`:                                     "memestimate config.json",
		"PK\x03\x04" + strings.Repeat("\x00", 22) + "\x0b\x00\x00\x00net/data/0\x00": "(zip archive)",
		"PK\x03\x04" + strings.Repeat("\x00", 22) + "\x0a\x00\x00\x00net/data/0":     "(PyTorch file): load it in Python",
	} {
		_, err := onnxload.ReadStream(strings.NewReader(head), onnxload.Options{})
		if f, ok := errors.AsType[*onnxload.FormatError](err); !ok || !strings.Contains(f.Error(), want) {
			t.Errorf("%q: %v, want %q", head, err, want)
		}
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	check := func(path, want string) {
		t.Helper()
		m, err := onnxload.Open(path)
		if want == "" {
			if err != nil {
				t.Error(err)
				return
			}
			m.Close()
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	check(filepath.Join(dir, "none.onnx"), "no such file")
	check(dir, "not an ONNX model (a folder)")
	b := Model{Graph: Relu()}.Bytes()
	must.Write(t, filepath.Join(dir, "m.onnx"), b)
	check(filepath.Join(dir, "m.onnx"), "")
	must.Write(t, filepath.Join(dir, "m.onnx.data"), []byte{0, 0, 0x80, 0x3f})
	check(filepath.Join(dir, "m.onnx.data"), "not an ONNX model (weights of "+filepath.Join(dir, "m.onnx"))
	if runtime.GOOS == "linux" {
		check("/dev/null", "empty file")
		check("/dev/zero", "byte 0: field number 0")
	}
	m, err := onnxload.Open(filepath.Join(dir, "m.onnx"))
	must.OK(t, err)
	if m.Path != filepath.Join(dir, "m.onnx") || m.Size != int64(len(b)) {
		t.Errorf("path %q, size %d", m.Path, m.Size)
	}
	if err := errors.Join(m.Close(), m.Close()); err != nil {
		t.Error(err)
	}
}

// A18: a file that is shorter than it was said to be.
func TestShrinks(t *testing.T) {
	b := Model{Graph: chain(50)}.Bytes()
	for _, n := range []int{0, 1, len(b) / 2, len(b) - 1} {
		_, err := onnxload.Read(bytes.NewReader(b[:n]), int64(len(b)), onnxload.Options{})
		if err == nil || !strings.Contains(err.Error(), "changed while being read") {
			t.Errorf("%d bytes of %d: %v", n, len(b), err)
		}
	}
}

// A20: the limit on nodes stops a graph before its nodes take memory.
func TestNodeLimit(t *testing.T) {
	b := Model{Graph: chain(5000)}.Bytes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Limits: onnxload.Limits{Nodes: 4999}})
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), "more than 4999 nodes") {
		t.Errorf("%v", err)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 200_000 {
		t.Errorf("%d bytes allocated", n)
	}
	if _, err := onnxload.ReadStream(bytes.NewReader(b),
		onnxload.Options{Limits: onnxload.Limits{Nodes: 4999}}); err == nil {
		t.Error("accepted as a stream")
	}
	if _, err := onnxload.Read(bytes.NewReader(b), int64(len(b)),
		onnxload.Options{Limits: onnxload.Limits{Bytes: 100_000}}); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("%v", err)
	}
}

// full is a small model with one of everything.
func full() Model {
	body := Graph{Nodes: []Node{Op("Add", "y w", "t")}, Out: []Value{{Name: "t"}}}
	seq := TensorOf(onnxload.Float32, "n")
	return Model{
		IR: 10, Producer: "test", Opsets: []Import{Domain("l", 1)}, Meta: []onnxload.Entry{{Key: "k", Value: "v"}},
		Graph: Graph{
			In: []Value{Float("x", "batch", 3), Typed("s", Type{Kind: onnxload.SequenceType, Of: &seq})},
			Nodes: []Node{
				Op("Relu", "x", "y", A("a", float32(1)), A("b", []float32{1, 2}), A("c", []int64{1, 300}), A("d", "text"),
					A("t", Int64s("", 1))).Named("act"),
				Op("If", "x", "z", A("then_branch", body)),
			},
			Inits: []Tensor{Zeros("w", onnxload.Float32, 3), {Name: "i", DType: onnxload.Int32, Dims: []int64{2},
				Typed: []int32{1, -1}}},
			Sparse: []Sparse{SparseOf(Float32s("sp", 1), Int64s("", 2), 4)},
			Infos:  []Value{Float("y", "batch", 3)},
			Out:    []Value{Float("z", "batch", 3)},
		},
	}
}

// A10: a file that was cut off anywhere is refused, save where only what follows the whole graph
// and its operator sets is missing: such a file is a whole one to any reader of protobuf. Where the
// import of ai.onnx is missing too, a note says so.
func TestTruncated(t *testing.T) {
	b := full().Bytes()
	want := dump(read(t, full()))
	accepted := 0
	for n := range b {
		m, err := onnxload.Read(bytes.NewReader(b[:n]), int64(n), onnxload.Options{})
		s, serr := onnxload.ReadStream(bytes.NewReader(b[:n]), onnxload.Options{})
		if (err == nil) != (serr == nil) {
			t.Errorf("cut at %d: file %v, stream %v", n, err, serr)
		}
		if err != nil {
			continue
		}
		accepted++
		if len(m.Opsets) == 0 {
			if notes := strings.Join(m.Notes, "\n"); !strings.Contains(notes, "imports no version of ai.onnx") {
				t.Errorf("cut at %d of %d: accepted without its operator sets, notes %q", n, len(b), notes)
			}
			continue
		}
		if got := dump(m); got != want {
			t.Errorf("cut at %d of %d: accepted as another model\n%s", n, len(b), got)
		}
		if got := dump(s); got != want {
			t.Errorf("cut at %d of %d: the stream is accepted as another model\n%s", n, len(b), got)
		}
	}
	if accepted > 3 { // before the metadata, the import of a domain that no node uses, and all imports
		t.Errorf("%d of %d cuts accepted", accepted, len(b))
	}
}

var errIO = errors.New("disk on fire")

// failing fails at the n-th read.
type failing struct {
	b     []byte
	reads int
	n     int
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.reads++; f.reads > f.n {
		return 0, errIO
	}
	return bytes.NewReader(f.b).ReadAt(p[:min(len(p), 7)], off) // short reads on the way
}

type failingStream struct {
	r *failing
	n int64
}

func (f *failingStream) Read(p []byte) (int, error) {
	n, err := f.r.ReadAt(p, f.n)
	f.n += int64(n)
	if err == io.EOF && n > 0 {
		err = nil
	}
	return n, err
}

func TestReadErrors(t *testing.T) {
	b := full().Bytes()
	want := dump(read(t, full()))
	for n := 0; ; n++ {
		m, err := onnxload.Read(&failing{b: b, n: n}, int64(len(b)), onnxload.Options{})
		s, serr := onnxload.ReadStream(&failingStream{r: &failing{b: b, n: n}}, onnxload.Options{})
		if err == nil && serr == nil {
			if dump(m) != want || dump(s) != want {
				t.Error("short reads give another model")
			}
			if n < 20 {
				t.Errorf("read in %d reads, want more", n)
			}
			return
		}
		if err != nil && !errors.Is(err, errIO) || serr != nil && !errors.Is(serr, errIO) {
			t.Fatalf("after %d reads: %v, %v", n, err, serr)
		}
		if n > 10_000 {
			t.Fatal("never read")
		}
	}
}
