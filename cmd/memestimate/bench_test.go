package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// BenchmarkStart is the processor time of the whole program, of a built-in model and of ever more nodes.
func BenchmarkStart(b *testing.B) {
	program, err := exec.LookPath("memestimate")
	must.OK(b, err)
	models := []string{"resnet50"}
	for _, nodes := range []int{1_000, 8_000, 64_000} {
		models = append(models, filepath.Join(b.TempDir(), fmt.Sprintf("%d-nodes.onnx", nodes)))
		must.Write(b, models[len(models)-1], Model{Graph: perceptron(nodes / 2)}.Bytes())
	}
	for _, model := range models {
		b.Run(filepath.Base(model), func(b *testing.B) {
			var spent time.Duration
			for b.Loop() {
				run := exec.Command(program, model, "--batch", "32")
				must.OK(b, run.Run())
				spent += run.ProcessState.UserTime() + run.ProcessState.SystemTime()
			}
			b.ReportMetric(float64(spent.Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func perceptron(layers int) Graph {
	g := Graph{In: []Value{Float("x", "batch", 64)}}
	in := "x"
	for i := range layers {
		module := fmt.Sprintf("layers.%d", i)
		g.Inits = append(g.Inits, Bare(module+".weight", onnxload.Float32, 64, 64))
		gemm, relu := "/"+module+"/Gemm", "/"+module+"/Relu"
		g.Nodes = append(g.Nodes,
			Node{Op: "Gemm", Name: gemm, In: []string{in, module + ".weight"}, Out: []string{gemm + "_output_0"},
				Attrs: []Attr{A("transB", int64(1))}},
			Node{Op: "Relu", Name: relu, In: []string{gemm + "_output_0"}, Out: []string{relu + "_output_0"}})
		in = relu + "_output_0"
	}
	g.Out = []Value{{Name: in}}
	return g
}
