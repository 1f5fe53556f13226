package fromonnx

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/onnxload"
)

// rareNodes are operators that few models have. Those of emitGeneral are one function of autograd, which keeps its arguments;
// those of emitFill have no gradient: quantized arithmetic, whose results have types of their own.
var rareNodes = []nodeRow{
	{"DeformConv", emitGeneral}, {"MaxUnpool", emitGeneral}, {"Det", emitGeneral}, {"AffineGrid", emitGeneral},
	{"LSTM", emitRNN("lstm")}, {"GRU", emitRNN("gru")}, {"RNN", emitRNN("rnn")}, {"SwiGLU", emitSwiGLU},
	{"CausalConvWithState", emitGeneral}, {"TensorScatter", emitGeneral}, {"ReverseSequence", unaryCall("flip")}, {"BitCast", emitCast},
	{"Shape", emitFill}, {"Size", emitFill}, // as results of the graph
	{"STFT", emitGeneral}, {"DFT", emitGeneral}, {"MaxRoiPool", emitGeneral}, {"LinearAttention", emitGeneral},
	{"CenterCropPad", emitCropPad}, {"NegativeLogLikelihoodLoss", emitNLL}, {"SoftmaxCrossEntropyLoss", emitNLL},
	{"RotaryEmbedding", emitRotary}, {"SimplifiedLayerNormalization", emitLayerNorm("rms_norm")},

	{"QuantizeLinear", emitFill}, {"DequantizeLinear", emitDequantize}, {"DynamicQuantizeLinear", emitFill},
	{"MatMulInteger", emitFill}, {"ConvInteger", emitFill}, {"QLinearMatMul", emitFill}, {"QLinearConv", emitFill},

	{"HannWindow", emitFill}, {"HammingWindow", emitFill}, {"BlackmanWindow", emitFill}, {"MelWeightMatrix", emitFill},
}

// emitDequantize makes floats of a quantized tensor; its scale may be trained.
func emitDequantize(b *recovery, n *onnxload.Node) {
	b.value(b.in(n, 0)) // quantized weights are on the GPU
	emitFill(b, n)
}

// emitCropPad is slices where the result is smaller, and a pad where it is larger.
func emitCropPad(b *recovery, n *onnxload.Node) {
	in, out := b.dims(b.in(n, 0)), b.dims(n.Out[0])
	if len(in) != len(out) {
		b.opaque(n)
		return
	}
	var args aten.Args
	cropped := slices.Clone(in)
	for i := range in {
		if out[i] < in[i] {
			args.Dims, args.Shape = append(args.Dims, i), append(args.Shape, out[i])
			cropped[i] = out[i]
		}
	}
	if slices.Equal(cropped, out) {
		b.call("slice", args, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
		return
	}
	v := b.value(b.in(n, 0))
	if len(args.Dims) > 0 {
		v = b.temp("slice", args, b.elem(n.Out[0]), cropped, v)
	}
	b.call("constant_pad", aten.Args{Shape: out}, []aten.ValueID{v}, n.Out[0])
}

// emitNLL is nll_loss, of log_softmax for a cross entropy. One that is not reduced is a function of its own.
func emitNLL(b *recovery, n *onnxload.Node) {
	x, labels := b.in(n, 0), b.in(n, 1)
	shape := b.dims(x)
	none := n.Attr("reduction") != nil && n.Attr("reduction").Str == "none"
	if none || len(shape) < 2 || labels == onnxload.NoValue || len(b.dims(n.Out[0])) != 0 {
		emitGeneral(b, n)
		return
	}
	v := b.value(x)
	if n.Op == "SoftmaxCrossEntropyLoss" {
		if len(n.Out) > 1 && n.Out[1] != onnxload.NoValue {
			b.call("log_softmax", aten.Args{}, []aten.ValueID{v}, n.Out[1])
			v = b.of[n.Out[1]]
		} else {
			v = b.temp("log_softmax", aten.Args{}, b.elem(x), shape, v)
		}
	}
	b.call("nll_loss", aten.Args{}, []aten.ValueID{v, b.value(labels)}, n.Out[0])
}

// emitSwiGLU is silu(a) * b of the halves of its argument's last dimension, or of the two arguments.
func emitSwiGLU(b *recovery, n *onnxload.Node) {
	out, d := b.dims(n.Out[0]), b.elem(n.Out[0])
	halves := []aten.ValueID{b.value(b.in(n, 0)), b.value(b.in(n, 1))}
	if in := b.dims(b.in(n, 0)); halves[1] == aten.NoValue {
		last := len(in) - 1
		if len(out) != len(in) || last < 0 || in[last] != 2*out[last] {
			b.opaque(n)
			return
		}
		for i := range halves {
			halves[i] = b.temp("slice", aten.Args{Dims: []int{last}, Shape: out[last:]}, d, out, b.value(b.in(n, 0)))
		}
	}
	gate := b.temp("silu", aten.Args{}, d, out, halves[0])
	b.call("mul", aten.Args{}, []aten.ValueID{gate, halves[1]}, n.Out[0])
}
