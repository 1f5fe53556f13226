package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
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
		m := readModel(t, raw, "")
		nodes := len(m.Graph.Nodes)
		r, err := Run(m, Options{Step: &Step{}})
		must.OK(t, err)
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
		m := readModel(t, raw, "")
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

// A weight in a Constant node is the parameter that it is in the list of initializers: counted, moved and trained. A
// number there is a number; what PyTorch's exporters put there under a name of theirs, they traced.
func TestConstantsInNodes(t *testing.T) {
	run := func(producer string, nodes []onnxtest.Node, inits ...onnxtest.Tensor) *Report {
		raw := onnxtest.Model{Opset: 17, Producer: producer, Graph: onnxtest.Graph{
			In: []onnxtest.Value{onnxtest.Float("x", 2, 4)}, Inits: inits, Nodes: nodes, Out: []onnxtest.Value{{Name: "y"}},
		}}.Bytes()
		m := readModel(t, raw, "")
		r, err := Run(m, Options{Step: &Step{}})
		if err != nil || r.Peak == nil {
			t.Fatal(r, err)
		}
		return r
	}
	weight := func(name string) onnxtest.Tensor { return onnxtest.Zeros(name, onnxload.Float32, 4, 8) }
	constant := func(t onnxtest.Tensor) onnxtest.Node {
		return onnxtest.Op("Constant", "", t.Name, onnxtest.A("value", t))
	}
	product := func(w string) onnxtest.Node { return onnxtest.Op("MatMul", "x "+w, "y") }

	listed := run("", []onnxtest.Node{product("fc.weight")}, weight("fc.weight"))
	for _, r := range []*Report{
		run("", []onnxtest.Node{constant(weight("fc.weight")), product("fc.weight")}),
		run("", []onnxtest.Node{constant(weight("fc.weight")), constant(onnxtest.Zeros("scale", onnxload.Float32)),
			onnxtest.Op("MatMul", "x fc.weight", "h"), onnxtest.Op("Mul", "h scale", "y")}),
	} {
		if r.Parameters != listed.Parameters || r.Settings.Mode != "train" || r.Gradients.Bytes != 4*32 {
			t.Errorf("%+v in a Constant node, mode %s, listed %+v", r.Parameters, r.Settings.Mode, listed.Parameters)
		}
	}
	traced := run("pytorch", []onnxtest.Node{constant(weight("onnx::MatMul_7")), product("onnx::MatMul_7")})
	if traced.Parameters.Count != 0 || traced.Buffers.Count != 32 {
		t.Errorf("%+v and %+v of what was traced, want a buffer of 32", traced.Parameters, traced.Buffers)
	}
}
