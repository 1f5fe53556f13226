package estimate

import (
	"bytes"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The light models of ONNX's tests have the parameters of the models that they stand for, which
// are known: those of torchvision, or of Caffe's model zoo.
func TestLightModels(t *testing.T) {
	parameters := map[string]int64{
		"light_bvlc_alexnet.onnx": 60_965_224, // of BVLC's reference; two groups in three convolutions
		"light_resnet50.onnx":     25_557_032,
		"light_squeezenet.onnx":   1_235_496,
		"light_vgg19.onnx":        143_667_240,
	}
	seen := 0
	err := onnxtest.Archives("shape/testdata/onnx-nodes-more.tar.gz", func(name string, raw []byte) {
		want, ok := parameters[name]
		if !ok {
			return
		}
		seen++
		m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{})
		if err != nil {
			t.Fatal(err)
		}
		nodes := len(m.Graph.Nodes)
		r, err := Run(m, Options{Step: &Step{}})
		if err != nil {
			t.Fatal(err)
		}
		if r.Parameters.Count != want || r.Model.Nodes != nodes || len(m.Graph.Nodes) != nodes {
			t.Errorf("%s: %d parameters in %d nodes, want %d in %d", name, r.Parameters.Count, r.Model.Nodes, want, nodes)
		}
		// Weights, gradients and AdamW's two moments.
		if r.Peak == nil || r.Peak.Allocated < 4*4*want {
			t.Errorf("%s: peak %+v, want at least %d bytes", name, r.Peak, 4*4*want)
		}
	})
	if err != nil || seen != len(parameters) {
		t.Errorf("%d models, want %d: %v", seen, len(parameters), err)
	}
}

// Only a float tensor of a stored shape that arrives where a weight does is one.
func TestFilledTensorsThatAreNoWeights(t *testing.T) {
	for _, test := range []struct {
		name  string
		nodes []onnxtest.Node
		want  int64
	}{
		{"a weight", []onnxtest.Node{onnxtest.Op("ConstantOfShape", "s", "w"), onnxtest.Op("MatMul", "x w", "y")}, 32},
		{"a weight of two operators", []onnxtest.Node{onnxtest.Op("ConstantOfShape", "s", "w"),
			onnxtest.Op("MatMul", "x w", "h"), onnxtest.Op("Gemm", "x w", "y")}, 32},
		{"a summand", []onnxtest.Node{onnxtest.Op("ConstantOfShape", "s", "w"), onnxtest.Op("Add", "z w", "y")}, 0},
		{"a result", []onnxtest.Node{onnxtest.Op("ConstantOfShape", "s", "y"), onnxtest.Op("MatMul", "x y", "h")}, 0},
		{"a computed shape", []onnxtest.Node{onnxtest.Op("Shape", "z", "n"), onnxtest.Op("ConstantOfShape", "n", "w"),
			onnxtest.Op("MatMul", "x w", "y")}, 0},
		{"integers", []onnxtest.Node{onnxtest.Op("ConstantOfShape", "s", "w", onnxtest.A("value", onnxtest.Int64s("v", 1))),
			onnxtest.Op("Gather", "w i", "y")}, 0},
	} {
		raw := onnxtest.Model{Opset: 17, Graph: onnxtest.Graph{
			In:    []onnxtest.Value{onnxtest.Float("x", 2, 4), onnxtest.Float("z", 4, 8), onnxtest.Val("i", onnxload.Int64, 3)},
			Inits: []onnxtest.Tensor{onnxtest.Int64s("s", 4, 8)},
			Nodes: test.nodes,
			Out:   []onnxtest.Value{{Name: "y"}},
		}}.Bytes()
		m, err := onnxload.Read(bytes.NewReader(raw), int64(len(raw)), onnxload.Options{})
		if err != nil {
			t.Fatal(err)
		}
		r, err := Run(m, Options{})
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if r.Parameters.Count != test.want || r.Model.Nodes != len(test.nodes) {
			t.Errorf("%s: %d parameters in %d nodes, want %d in %d", test.name, r.Parameters.Count, r.Model.Nodes, test.want,
				len(test.nodes))
		}
	}
}
