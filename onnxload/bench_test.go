package onnxload_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// chain returns a graph of n nodes, every fourth with a small initializer and
// attributes, as exporters write them.
func chain(n int) Graph {
	g := Graph{In: []Value{Float("x0", "batch", 64)}}
	for i := range n {
		in, out := "x"+strconv.Itoa(i), "x"+strconv.Itoa(i+1)
		node := Node{Op: "Relu", Name: "/layer." + strconv.Itoa(i/10) + "/act/Relu_" + strconv.Itoa(i), In: []string{in},
			Out: []string{out}}
		switch i % 4 {
		case 0:
			w := "w" + strconv.Itoa(i)
			g.Inits = append(g.Inits, Int64s(w, 1, -1, 64))
			node.Op, node.In = "Reshape", []string{in, w}
		case 1:
			node.Op = "Transpose"
			node.Attrs = []Attr{A("perm", []int64{0, 2, 1, 3})}
		}
		g.Nodes = append(g.Nodes, node)
	}
	g.Out = []Value{{Name: "x" + strconv.Itoa(n)}}
	return g
}

// resident returns the process's resident memory, 0 where /proc does not tell.
func resident() float64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if s, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseFloat(strings.Fields(s)[0], 64)
			return kb / 1024
		}
	}
	return 0
}

// benchmarkFile measures Open of a file.
func benchmarkFile(b *testing.B, path string) {
	b.Helper()
	b.Run("open", func(b *testing.B) {
		debug.FreeOSMemory()
		before := resident()
		var live, had runtime.MemStats
		runtime.ReadMemStats(&had)
		var m *onnxload.Model
		for b.Loop() {
			var err error
			if m, err = onnxload.Open(path); err != nil {
				b.Fatal(err)
			}
			m.Close()
		}
		runtime.GC()
		runtime.ReadMemStats(&live)
		b.ReportMetric((float64(live.HeapAlloc)-float64(had.HeapAlloc))/(1<<20), "live-MB")
		b.ReportMetric(max(0, resident()-before), "resident-MB")
		runtime.KeepAlive(m)
	})
}

// BenchmarkReadSwin reads a graph of the size of a swin_t export: 8,129 nodes.
func BenchmarkReadSwin(b *testing.B) { benchmarkGraph(b, 8129) }

// BenchmarkRead200k reads a graph of 200,000 nodes and 50,000 small initializers.
func BenchmarkRead200k(b *testing.B) { benchmarkGraph(b, 200_000) }

func benchmarkGraph(b *testing.B, nodes int) {
	path := filepath.Join(b.TempDir(), "m.onnx")
	if err := os.WriteFile(path, Model{Graph: chain(nodes)}.Bytes(), 0o644); err != nil {
		b.Fatal(err)
	}
	benchmarkFile(b, path)
}

// writeBig writes a model of n tensors of size bytes each as a sparse file.
func writeBig(path string, n int, size int64) error {
	var nodes []byte
	for i := range n {
		nodes = Bytes(nodes, 1, Str(Str(Str(Str(nil, 1, fmt.Sprint("x", i)), 1, fmt.Sprint("w", i)), 2,
			fmt.Sprint("x", i+1)), 4, "Add"))
	}
	heads := make([][]byte, n)
	total := int64(len(nodes))
	for i := range heads {
		t := Varint(Varint(nil, 1, uint64(size/4)), 2, 1)
		t = Str(t, 8, fmt.Sprint("w", i))
		t = Tag(t, 9, 2)
		t = appendUvarint(t, uint64(size))
		heads[i] = append(appendUvarint(Tag(nil, 5, 2), uint64(int64(len(t))+size)), t...)
		total += int64(len(heads[i])) + size
	}
	tail := Bytes(nil, 11, Str(nil, 1, "x0"))
	total += int64(len(tail))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	head := Bytes(Varint(nil, 1, 10), 8, Varint(nil, 2, 21))
	head = appendUvarint(Tag(head, 7, 2), uint64(total))
	at := int64(0)
	put := func(b []byte) {
		if err == nil {
			_, err = f.WriteAt(b, at)
		}
		at += int64(len(b))
	}
	put(head)
	put(nodes)
	for _, h := range heads {
		put(h)
		at += size
	}
	put(tail)
	return err
}

func appendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func TestBigFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "big.onnx")
	if err := writeBig(path, 30, 100<<20); err != nil {
		t.Skip("no room for a sparse file: ", err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := onnxload.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes allocated for a file of %d, want less than 1 MiB", n, m.Size)
	}
	if len(m.Graph.Nodes) != 30 || len(m.Graph.Inits) != 30 || m.Size < 3_000_000_000 {
		t.Errorf("%d nodes, %d initializers, %d bytes", len(m.Graph.Nodes), len(m.Graph.Inits), m.Size)
	}
	if _, err := m.Floats(m.Values[m.Graph.Inits[0]].Init); err == nil {
		t.Error("100 MB were read as a constant")
	}
}

func BenchmarkReadStream(b *testing.B) {
	data := Model{Graph: chain(8129)}.Bytes()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if _, err := onnxload.ReadStream(bytes.NewReader(data), onnxload.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
