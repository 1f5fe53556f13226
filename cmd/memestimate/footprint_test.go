package main

import (
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/test/must"
)

// What a large graph costs is the memory that is touched for it the first time: reading, shapes, layers and the table
// take so many bytes a node. Before attributes, names, types and places were shared it was twice to ten times as much.
func TestBytesANode(t *testing.T) {
	const nodes = 20_000
	long := filepath.Join(t.TempDir(), "long.onnx")
	must.OK(t, writeLong(long, nodes))
	for _, c := range []struct {
		name, path string
		most       uint64
	}{
		{"two nodes and two parameters a layer", long, 1200},
		{"convolutions with five attributes and four statistics", writeGraph(t, convolutions(nodes/3)), 1900},
		{"modules seven deep", writeGraph(t, deepModules(nodes/4)), 1800},
	} {
		table := func() {
			m, err := onnxload.Open(c.path)
			must.OK(t, err)
			defer m.Close()
			r, err := estimate.Run(m, estimate.Options{Name: "m", Batch: 2})
			must.OK(t, err)
			must.OK(t, report.Text(io.Discard, r, 0))
		}
		table() // tables of operators are made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		table()
		runtime.ReadMemStats(&after)
		if got := (after.TotalAlloc - before.TotalAlloc) / nodes; got > c.most {
			t.Errorf("%s: %d bytes a node, want at most %d", c.name, got, c.most)
		} else {
			t.Logf("%s: %d bytes a node", c.name, got)
		}
	}
}

func writeGraph(t *testing.T, g Graph) string {
	path := filepath.Join(t.TempDir(), "graph.onnx")
	must.Write(t, path, Model{Graph: g, Producer: "pytorch"}.Bytes())
	return path
}

// convolutions is a chain of n convolutions with their batch norms and ReLUs.
func convolutions(n int) (g Graph) {
	g.In = []Value{Float("x", "batch", 8, 16, 16)}
	in := "x"
	for i := range n {
		module := fmt.Sprintf("stages.%d.blocks.%d", i/100, i%100)
		path := "/" + strings.ReplaceAll(module, ".blocks", "/blocks")
		g.Inits = append(g.Inits, Bare(module+".conv.weight", onnxload.Float32, 8, 8, 3, 3))
		norm := []string{module + ".bn.weight", module + ".bn.bias", module + ".bn.running_mean", module + ".bn.running_var"}
		for _, name := range norm {
			g.Inits = append(g.Inits, Bare(name, onnxload.Float32, 8))
		}
		conv, bn, relu := path+"/conv/Conv", path+"/bn/BatchNormalization", path+"/act/Relu"
		g.Nodes = append(g.Nodes,
			Node{Op: "Conv", Name: conv, In: []string{in, module + ".conv.weight"}, Out: []string{conv + "_output_0"},
				Attrs: []Attr{
					A("dilations", []int64{1, 1}), A("group", 1), A("kernel_shape", []int64{3, 3}), A("pads",
						[]int64{1, 1, 1, 1}), A("strides", []int64{1, 1}),
				}},
			Node{Op: "BatchNormalization", Name: bn, In: append([]string{conv + "_output_0"}, norm...),
				Out: []string{bn + "_output_0"}, Attrs: []Attr{A("epsilon", float32(1e-5))}},
			Node{Op: "Relu", Name: relu, In: []string{bn + "_output_0"}, Out: []string{relu + "_output_0"}})
		in = relu + "_output_0"
	}
	g.Out = []Value{{Name: in}}
	return g
}

// deepModules is a chain of n modules, each of four nodes and seven modules down, with the types of all values.
func deepModules(n int) (g Graph) {
	g.In = []Value{Float("x", "batch", 64)}
	in := "x"
	for i := range n {
		path := ""
		for depth, k := 0, i; depth < 6; depth, k = depth+1, k/8 {
			path += fmt.Sprintf("/blocks_of_level_%d.%d", depth, k%8)
		}
		path += fmt.Sprintf("/proj.%d", i)
		module := strings.ReplaceAll(path[1:], "/", ".")
		g.Inits = append(g.Inits, Bare(module+".weight", onnxload.Float32, 64, 64),
			Bare(module+".bias", onnxload.Float32, 64))
		from := in
		for _, n := range []struct{ op, other string }{{"MatMul", module + ".weight"}, {"Add", module + ".bias"},
			{"Relu", ""}, {"Mul", from}} {
			name := path + "/" + n.op
			inputs := []string{in, n.other}
			if n.other == "" {
				inputs = inputs[:1]
			}
			in = name + "_output_0"
			g.Nodes = append(g.Nodes, Node{Op: n.op, Name: name, In: inputs, Out: []string{in}})
			g.Infos = append(g.Infos, Float(in, "batch", 64))
		}
	}
	g.Out = []Value{{Name: in}}
	return g
}
