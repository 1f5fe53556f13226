package recover

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// contribDomain is that of ONNX Runtime's operators (docs/ContribOperators.md of microsoft/onnxruntime).
const contribDomain = "com.microsoft"

// contribRows are the operators into which ONNX Runtime's optimizer fuses several. Functions of activation and norms are
// taken apart again, into the calls that PyTorch makes for the same; the others are opaque.
var contribRows = []nodeRow{
	{"Gelu", "data", 0, unaryCall("gelu")},
	{"FastGelu", "data weight?", 0, emitBiasGelu},
	{"BiasGelu", "data weight", 0, emitBiasGelu},
	{"QuickGelu", "data", 0, emitQuickGelu},
	{"SkipLayerNormalization", "data data weight weight? weight?", 0, emitSkipNorm("layer_norm")},
	{"SkipSimplifiedLayerNormalization", "data data weight weight?", 0, emitSkipNorm("rms_norm")},
	{"SimplifiedLayerNormalization", "data weight", 0, emitLayerNorm("rms_norm")},
	{"EmbedLayerNormalization", "data data? weight weight weight? weight weight data? data?", 0, nil},
	{"Attention", "data weight weight? data? data? data? data?", 0, nil},
	{"MultiHeadAttention", "data data? data? data? data? data? data? data? data? data?", 0, nil},
	{"GroupQueryAttention", "data data? data? data? data? data data data? data? data? data? data? data? data?", 0, nil},
	{"FusedMatMul", "weight weight", 0, nil},
	{"FusedGemm", "weight weight weight?", 0, nil},
	{"FusedConv", "data weight weight? data?", 0, nil},
	{"MatMulNBits", "data weight buffer buffer? buffer? weight?", module.Quantized, nil},
}

// emitBiasGelu is gelu(x + bias), the bias optional.
func emitBiasGelu(b *recovery, n *onnxload.Node) {
	x := b.value(b.in(n, 0))
	if bias := b.in(n, 1); bias != onnxload.NoValue {
		x = b.temp("add", program.Args{}, b.elem(n.Output(0)), b.dims(n.Output(0)), x, b.value(bias))
	}
	b.call("gelu", program.Args{}, []program.ValueID{x}, n.Output(0))
}

// emitQuickGelu is x * sigmoid(alpha * x).
func emitQuickGelu(b *recovery, n *onnxload.Node) {
	x, d, shape := b.value(b.in(n, 0)), b.elem(n.Output(0)), b.dims(n.Output(0))
	s := b.temp("mul", program.Args{}, d, shape, x, b.pythonNumber(d))
	s = b.temp("sigmoid", program.Args{}, d, shape, s)
	b.call("mul", program.Args{}, []program.ValueID{x, s}, n.Output(0))
}

// pythonNumber returns a number that the code has.
func (b *recovery) pythonNumber(d program.DType) program.ValueID {
	return b.add(program.Value{Kind: program.Number, DType: d})
}

// emitSkipNorm is norm(input + skip [+ bias]): the sum may be a result too.
func emitSkipNorm(norm string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		shape, d := b.dims(n.Output(0)), b.elem(n.Output(0))
		params := []program.ValueID{b.value(b.in(n, 2))}
		bias := b.in(n, 3)
		if norm == "layer_norm" {
			params, bias = append(params, b.value(bias)), b.in(n, 4)
		}
		sum := b.temp("add", program.Args{}, d, shape, b.value(b.in(n, 0)), b.value(b.in(n, 1)))
		if bias != onnxload.NoValue {
			sum = b.temp("add", program.Args{}, d, shape, sum, b.value(bias))
		}
		if len(n.Out) > 3 && n.Output(3) != onnxload.NoValue {
			b.of[n.Output(3)] = sum
		}
		if len(shape) == 0 {
			b.opaque(n)
			return
		}
		b.call(norm, program.Args{Shape: shape[len(shape)-1:]}, append([]program.ValueID{sum}, params...), n.Output(0))
	}
}

// rest makes the results of a node from this one on: what the next call is given, such as keys and values.
func (b *recovery) rest(n *onnxload.Node, from int) {
	for k := from; k < len(n.Out); k++ {
		if o := n.Out[k]; o != onnxload.NoValue && b.of[o] == program.NoValue {
			b.call("fill", program.Args{DType: b.elem(o), Shape: b.dims(o)}, nil, o)
		}
	}
}

// emitGeneral emits an operator that autograd keeps the arguments of.
func emitGeneral(b *recovery, n *onnxload.Node) {
	var in []program.ValueID
	for i := range n.In {
		if v := b.value(b.in(n, i)); v != program.NoValue {
			in = append(in, v)
		}
	}
	b.call("opaque", program.Args{Mode: "saves"}, in, n.Out...)
	b.approximate(n, "it is taken to save its arguments and to need nothing else")
}

// approximate notes, once an operator, what is not followed in full.
func (b *recovery) approximate(n *onnxload.Node, how string) {
	if !b.said[n.Op] {
		b.said[n.Op] = true
		b.prog.Notes = append(b.prog.Notes, fmt.Sprintf("operator %q is approximate: %s", n.Op, how))
	}
}
