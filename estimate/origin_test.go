package estimate

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// Of a file that is not PyTorch's the report says whose it is, and gives no advice on torch.onnx.
func TestOriginOfFile(t *testing.T) {
	net := []on.Node{
		on.Op("Conv", "x conv.weight", "c"), on.Op("BatchNormalization",
			"c bn.weight bn.bias bn.running_mean bn.running_var", "y"),
	}
	grad := append(net[:2:2], on.Op("ReluGrad", "y y", "dy").Of("com.microsoft"))
	quantized := []on.Node{on.Op("QuantizeLinear", "x scale zero", "q"), on.Op("DequantizeLinear", "q scale zero", "y")}
	for _, tt := range []struct {
		producer  string
		nodes     []on.Node
		has, lack []string
	}{
		{"pytorch", net, []string{"TrainingMode.TRAINING"}, []string{"not from PyTorch", "backward pass, such as"}},
		{"", net, []string{"TrainingMode.TRAINING"}, []string{"not from PyTorch"}},
		{"tf2onnx", net, []string{"comes from TensorFlow by its exporter \"tf2onnx\"", "in evaluation mode"},
			[]string{"TrainingMode"}},
		{"MATLAB Deep Learning Toolbox Converter", net, []string{"comes from MATLAB"}, []string{"TrainingMode"}},
		{"pytorch", grad, []string{"1 node is of a backward pass, such as \"ReluGrad\""},
			[]string{"TrainingMode.TRAINING, do_constant"}},
		{"onnx.quantize", quantized, []string{"computes in integers by its own nodes (QuantizeLinear)"},
			[]string{"not from PyTorch", "work in place"}},
	} {
		var b strings.Builder
		r := answer(t, on.Model{Producer: tt.producer, Opsets: []on.Import{on.Domain("com.microsoft", 1)}, Graph: on.Graph{
			In: []on.Value{on.Float("x", 2, 3, 8, 8)}, Out: []on.Value{{Name: "y"}}, Nodes: tt.nodes,
			Inits: []on.Tensor{on.Zeros("conv.weight", onnxload.Float32, 4, 3, 3, 3),
				on.Zeros("bn.weight", onnxload.Float32, 4), on.Zeros("bn.bias", onnxload.Float32, 4),
				on.Zeros("bn.running_mean", onnxload.Float32, 4), on.Zeros("bn.running_var", onnxload.Float32,
					4), on.Float32s("scale", 0.1), on.Zeros("zero", onnxload.Int8)},
		}}, Options{Step: &Step{}})
		for _, n := range r.Notes {
			b.WriteString(n.Text + "\n")
		}
		for _, s := range tt.has {
			if !strings.Contains(b.String(), s) {
				t.Errorf("%q: no note has %q:\n%s", tt.producer, s, b.String())
			}
		}
		for _, s := range tt.lack {
			if strings.Contains(b.String(), s) {
				t.Errorf("%q: a note has %q:\n%s", tt.producer, s, b.String())
			}
		}
	}
}

// A graph of half precision is the run of the model in float32 unless another precision is asked for, and says so.
func TestHalfGraph(t *testing.T) {
	half := on.Model{Producer: "pytorch", Opset: 17, Graph: on.Graph{
		In: []on.Value{on.Val("x", onnxload.Float16, 64, 1024)}, Out: []on.Value{{Name: "y"}},
		Nodes: []on.Node{on.Op("LayerNormalization", "x norm.weight norm.bias", "y")},
		Inits: []on.Tensor{on.Bare("norm.weight", onnxload.Float16, 1024), on.Bare("norm.bias", onnxload.Float16, 1024)},
	}}
	const note = "--precision fp16 is that of the graph"
	single := answer(t, half, Options{Step: &Step{Infer: true}})
	if !(export{report: single}).says(note) {
		t.Errorf("no note has %q: %v", note, single.Notes)
	}
	asked := answer(t, half, Options{Step: &Step{Infer: true, Settings: torch.Settings{Precision: torch.FP16}}})
	if (export{report: asked}).says(note) {
		t.Errorf("fp16 was asked for, and a note has %q", note)
	}
	const input = 64 * 1024 * 2
	if s, a := single.Peak.ByCategory["input"], asked.Peak.ByCategory["input"]; s != 2*input || a != input {
		t.Errorf("the input has %d bytes in float32 and %d in float16, want %d and %d", s, a, 2*input, input)
	}
}

// A mask that an exporter computed from positions is as good as none; one that the module keeps is passed on.
func TestMasksThatExportersFold(t *testing.T) {
	for name, causal := range map[string]bool{"val_31": true, "attn.mask": false} {
		m := on.Model{Graph: on.Graph{
			In: []on.Value{on.Float("q", 2, 4, 16, 8), on.Float("k", 2, 4, 16, 8), on.Float("v", 2, 4, 16, 8)},
			Inits: []on.Tensor{on.Bare(name, onnxload.Bool, 1, 1, 16, 16), on.Float32s("val_1", 0.5).Scalar(),
				on.Float32s("val_2", 0).Scalar(), on.Float32s("val_3", -1e9).Scalar()},
			Nodes: []on.Node{
				on.Op("Transpose", "k", "kt", on.A("perm", []int64{0, 1, 3, 2})), on.Op("Mul", "q val_1", "qs"), on.Op("Mul",
					"kt val_1", "ks"), on.Op("MatMul", "qs ks", "scores"),
				on.Op("Where", name+" val_2 val_3", "mask"), on.Op("Add", "scores mask", "masked"), on.Op("Softmax", "masked", "p",
					on.A("axis", -1)), on.Op("MatMul", "p v", "y")},
			Out: []on.Value{on.Float("y", 2, 4, 16, 8)},
		}}
		data := m.Bytes()
		model := readModel(t, data, "")
		bound, err := Bind(model, Options{})
		must.OK(t, err)
		p, err := bound.Program(true)
		must.OK(t, err)
		found := false
		for _, c := range p.Calls {
			if c.Op == "sdpa" {
				found = true
				if c.Args.Causal != causal {
					t.Errorf("mask %q: is_causal is %v", name, c.Args.Causal)
				}
			}
		}
		if !found {
			t.Errorf("mask %q: no attention was found", name)
		}
	}
}
