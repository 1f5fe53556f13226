package onnxload_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
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
	must.OK(t, err)
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
