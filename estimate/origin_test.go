package estimate

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
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
