package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// BenchmarkStart measures what a user waits for: from the start of the process to its
// end, the table printed.
func BenchmarkStart(b *testing.B) {
	program := filepath.Join(b.TempDir(), "memestimate")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := func(to, of string) {
		if out, err := exec.Command("go", "build", "-o", to, of).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
	}
	resident := filepath.Join(b.TempDir(), "resident")
	if runtime.GOOS == "linux" { // other systems count it otherwise, or not at all
		build(resident, "./testdata/resident")
	}
	build(program+".linked", ".")
	must.OK(b, install(program+".linked", program))
	start := func(b *testing.B, args ...string) { start(b, resident, program, args...) }
	big := filepath.Join(b.TempDir(), "big.onnx")
	if err := writeBig(big, 50_000); err != nil {
		b.Skip("no room for a sparse file: ", err)
	}
	b.Run("10GB", func(b *testing.B) { start(b, big) })
	b.Run("version", func(b *testing.B) { start(b, "version") })
	paths := map[string]string{}
	names := []string{"resnet50", "swin_t"}
	for _, name := range names {
		paths[name] = filepath.Join(b.TempDir(), name+".onnx")
		data, err := models.Open(name)
		must.OK(b, err)
		must.Write(b, paths[name], data)
		b.Run(name, func(b *testing.B) { start(b, name, "--batch", "32") })
		b.Run(name+"-file", func(b *testing.B) { start(b, paths[name], "--batch", "32") })
	}
	long := filepath.Join(b.TempDir(), "long.onnx")
	must.OK(b, writeLong(long, 200_000))
	b.Run("200k-nodes", func(b *testing.B) { start(b, long, "--batch", "32") })
}

// start runs the program, and reports the processor time it took and the most memory that
// it had resident.
func start(b *testing.B, resident, program string, args ...string) {
	cpu := time.Duration(0)
	for b.Loop() {
		cmd := exec.Command(program, args...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v: %s", err, stderr.String())
		}
		cpu += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N), "cpu-ms/op")
	if runtime.GOOS == "linux" {
		out, err := exec.Command(resident, append([]string{program}, args...)...).Output()
		must.OK(b, err)
		kib, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
		must.OK(b, err)
		b.ReportMetric(float64(kib)*1024/1e6, "MB-resident")
	}
}

// install copies a program. What the linker has just written lies in the page cache in large pieces, which count as
// resident as a whole where a byte of them is touched: 14 MB more than of a file that was copied or read from a disk.
func install(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// writeLong writes a model of n nodes in the manner of a multilayer perceptron.
func writeLong(path string, n int) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// Pieces of a graph one after the other are the graph. The first pass adds up their size.
	size := 0
	pieces := func(use func([]byte) error) error {
		for i := 0; i < n; i += 2000 {
			if err := use(piece(i/2, min(i+2000, n)/2, n/2)); err != nil {
				return err
			}
		}
		return nil
	}
	if err := pieces(func(b []byte) error { size += len(b); return nil }); err != nil {
		return err
	}
	head := Bytes(Varint(nil, 1, 10), 8, Varint(nil, 2, 21))
	if _, err := f.Write(protowire.AppendVarint(Tag(head, 7, 2), uint64(size))); err != nil {
		return err
	}
	return pieces(func(b []byte) error { _, err := f.Write(b); return err })
}

// piece encodes the layers from..to of a graph of all layers.
func piece(from, to, all int) []byte {
	var g Graph
	in := "x"
	if from == 0 {
		g.In = []Value{Float("x", "batch", 64)}
	} else {
		in = fmt.Sprintf("/layers.%d/Relu_output_0", from-1)
	}
	for i := from; i < to; i++ {
		module := fmt.Sprintf("layers.%d", i)
		g.Inits = append(g.Inits, Bare(module+".weight", onnxload.Float32, 64, 64),
			Bare(module+".bias", onnxload.Float32, 64))
		gemm, relu := "/"+module+"/Gemm", "/"+module+"/Relu"
		g.Nodes = append(g.Nodes,
			Node{Op: "Gemm", Name: gemm, In: []string{in, module + ".weight", module + ".bias"},
				Out: []string{gemm + "_output_0"}, Attrs: []Attr{A("transB", int64(1))}},
			Node{Op: "Relu", Name: relu, In: []string{gemm + "_output_0"}, Out: []string{relu + "_output_0"}})
		in = relu + "_output_0"
	}
	if to == all {
		g.Out = []Value{{Name: in}}
	}
	return g.Bytes()
}

// writeBig writes a model with one inline weight of n x n floats, a hole in a sparse file.
func writeBig(path string, n int64) error {
	g := Graph{
		In:    []Value{Float("x", 8, int(n))},
		Nodes: []Node{{Op: "MatMul", Name: "/fc/MatMul", In: []string{"x", "fc.weight"}, Out: []string{"y"}}},
		Out:   []Value{{Name: "y"}},
	}.Bytes()
	size := 4 * n * n
	weight := protowire.AppendVarint(Tag(Str(Varint(Varint(Varint(nil, 1, uint64(n)), 1, uint64(n)), 2, 1), 8,
		"fc.weight"), 9, 2), uint64(size))
	graph := append(g, protowire.AppendVarint(Tag(nil, 5, 2), uint64(len(weight))+uint64(size))...)
	graph = append(graph, weight...)
	head := Bytes(Varint(nil, 1, 10), 8, Varint(nil, 2, 21))
	head = append(protowire.AppendVarint(Tag(head, 7, 2), uint64(len(graph))+uint64(size)), graph...)
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(head); err != nil {
		return err
	}
	return f.Truncate(int64(len(head)) + size)
}
