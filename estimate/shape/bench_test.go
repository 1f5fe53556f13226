package shape

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// BenchmarkInfer infers one model again and again. The file is loaded once.
func BenchmarkInfer(b *testing.B) {
	for _, name := range []string{"resnet50:ts-train", "swin_t:ts-train", "qwen2_0_5b:dynamo"} {
		b.Run(name, func(b *testing.B) {
			m := openModel(b, name)
			b.ReportMetric(float64(len(m.Graph.Nodes)), "nodes")
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Infer(m, Options{Batch: 8}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkLoadAndInfer reads the file as well, as the command does.
func BenchmarkLoadAndInfer(b *testing.B) {
	data, err := models.Open("swin_t:ts-train")
	must.OK(b, err)
	b.ReportAllocs()
	for b.Loop() {
		m, err := onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{})
		must.OK(b, err)
		if _, err := Infer(m, Options{Batch: 8}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkInfer200k infers a chain of 200,000 nodes, a quarter of them shape arithmetic.
func BenchmarkInfer200k(b *testing.B) {
	for _, opt := range []Options{{Batch: 8}, {}} {
		b.Run(fmt.Sprintf("batch=%d", opt.Batch), func(b *testing.B) {
			m := chain(50000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Infer(m, opt); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// chain returns a model of 4*n nodes: each link reshapes its input by its own shape.
func chain(n int) *onnxload.Model {
	m := &onnxload.Model{Values: make([]onnxload.Value, 1), Graph: &onnxload.Graph{}}
	value := func() onnxload.ValueID {
		m.Values = append(m.Values, onnxload.Value{})
		return onnxload.ValueID(len(m.Values) - 1)
	}
	x := value()
	m.Values[x] = onnxload.Value{Name: "x", Declared: &onnxload.Type{
		Kind: onnxload.TensorType, Elem: onnxload.Float32, HasRank: true,
		Dims: []onnxload.Dim{{Param: "batch"}, {Known: true, Size: 64}, {Known: true, Size: 56}},
	}}
	m.Graph.Inputs = []onnxload.ValueID{x}
	add := func(op string, in ...onnxload.ValueID) onnxload.ValueID {
		out := value()
		m.Graph.Nodes = append(m.Graph.Nodes, onnxload.Node{Op: op, Version: 20, In: in, Out: []onnxload.ValueID{out}})
		return out
	}
	for range n {
		s := add("Shape", x)
		r := add("Relu", x)
		y := add("Reshape", r, s)
		x = add("Add", x, y)
	}
	m.Graph.Outputs = []onnxload.ValueID{x}
	return m
}
