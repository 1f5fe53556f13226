package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// rareNodes are operators that few models have. Those of emitGeneral are one function of autograd, which keeps its
// arguments; those of emitFill have no gradient: quantized arithmetic, whose results have types of their own.
var rareNodes = []nodeRow{
	{"DeformConv", "data weight data weight? data?", 0, emitDeformConv},
	{"AffineGrid", "data number", 0, emitGeneral},
	{"LSTM", "data weight weight weight? data? data? data? weight?", module.LaterAlone, emitRNN("lstm")},
	{"GRU", "data weight weight weight? data? data?", module.LaterAlone, emitRNN("gru")},
	{"RNN", "data weight weight weight? data? data?", module.LaterAlone, emitRNN("rnn")},
	{"ReverseSequence", "data data", 0, unaryCall("flip")},
	{"Shape", "shape", 0, emitFill}, // as results of the graph
	{"Size", "shape", 0, emitFill},  // as results of the graph
	{"STFT", "data data data? data?", 0, emitGeneral},
	{"DFT", "data data? data?", 0, emitGeneral},
	{"NegativeLogLikelihoodLoss", "data data data?", 0, emitNLL(false)},
	{"SoftmaxCrossEntropyLoss", "data data data?", 0, emitNLL(true)},
	{"SimplifiedLayerNormalization", "data weight", 0, emitLayerNorm("rms_norm")},

	{"Loop", "data? data? data*", module.RunsGraph, nil},
	{"Scan", "data? data*", module.RunsGraph, nil},
	{"QuantizeLinear", "data buffer buffer?", module.Quantized, emitFill},
	{"DequantizeLinear", "weight buffer buffer?", module.Prepares | module.Quantized, emitDequantize},
	{"DynamicQuantizeLinear", "data", module.Quantized, emitFill},
	{"MatMulInteger", "weight weight buffer? buffer?", module.Quantized, emitFill},
	{"ConvInteger", "data weight buffer? buffer?", module.Quantized, emitFill},
	{"QLinearMatMul", "weight buffer buffer weight buffer buffer buffer buffer", module.Quantized, emitFill},
	{"QLinearConv", "data buffer buffer weight buffer buffer buffer buffer weight?", module.Quantized, emitFill},
}

// emitDequantize makes floats of a quantized tensor; its scale may be trained.
func emitDequantize(b *recovery, n *onnxload.Node) {
	b.value(b.in(n, 0)) // quantized weights are on the GPU
	emitFill(b, n)
}

// emitNLL is nll_loss, of log_softmax for a cross entropy. One that is not reduced is a function of its own.
func emitNLL(softmax bool) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) { b.nll(n, softmax) }
}

func (b *recovery) nll(n *onnxload.Node, softmax bool) {
	x, labels := b.in(n, 0), b.in(n, 1)
	shape := b.dims(x)
	none := n.Attr("reduction") != nil && n.Attr("reduction").Str == "none"
	if none || len(shape) < 2 || len(b.dims(n.Output(0))) != 0 {
		emitGeneral(b, n)
		return
	}
	v := b.value(x)
	if softmax {
		if len(n.Out) > 1 && n.Output(1) != onnxload.NoValue {
			b.call("log_softmax_typed", program.Args{}, []program.ValueID{v}, n.Output(1))
			v = b.of[n.Output(1)]
		} else {
			v = b.temp("log_softmax_typed", program.Args{}, b.elem(x), shape, v)
		}
	}
	b.call("nll_loss", program.Args{}, []program.ValueID{v, b.value(labels)}, n.Output(0))
}

// emitDeformConv is torchvision.ops.deform_conv2d, which has the mask before the bias.
func emitDeformConv(b *recovery, n *onnxload.Node) {
	in := []program.ValueID{b.value(b.in(n, 0)), b.value(b.in(n, 1)), b.value(b.in(n, 2)), b.value(b.in(n, 4)), program.NoValue}
	if bias := b.in(n, 3); bias != onnxload.NoValue && !b.zeroBias(bias) {
		in[4] = b.value(bias)
	}
	b.call("deform_conv", program.Args{Shape: b.dims(n.Output(0))}, in, n.Output(0))
}

// emitReversed is flip, a copy: exporters write it as a Slice that goes backwards, which PyTorch's slices cannot.
func emitReversed(b *recovery, n *onnxload.Node) {
	b.call("flip", program.Args{}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// backwards reports whether one of the steps of a Slice is known to be negative.
func (b *recovery) backwards(steps onnxload.ValueID) bool {
	if steps == onnxload.NoValue {
		return false
	}
	c := b.types.Value(steps)
	if c == nil {
		return false
	}
	return slices.ContainsFunc(c.Ints, func(d shape.Dim) bool {
		step, known := d.Int()
		return known && step < 0
	})
}
