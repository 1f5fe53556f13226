package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// mathNodes are the rarer operators: functions, integer arithmetic and reductions.
var mathNodes = []nodeRow{
	{"Acos", "data", 0, unaryCall("acos")},
	{"Asin", "data", 0, unaryCall("asin")},
	{"Atan", "data", 0, unaryCall("atan")},
	{"Sinh", "data", 0, unaryCall("sinh")},
	{"Cosh", "data", 0, unaryCall("cosh")},
	{"Tan", "data", 0, unaryCall("tan")},
	{"Asinh", "data", 0, unaryCall("asinh")},
	{"Acosh", "data", 0, unaryCall("acosh")},
	{"Atanh", "data", 0, unaryCall("atanh")},
	{"Shrink", "data", 0, unaryCall("hardshrink")},
	{"ThresholdedRelu", "data", 0, unaryCall("threshold")},
	{"CumProd", "data number", 0, unaryCall("cumprod")},
	{"Mod", "data data", 0, binaryCall("remainder")},
	{"BitShift", "data data", 0, binaryCall("bitwise")},
	{"BitwiseAnd", "data data", 0, binaryCall("bitwise")},
	{"BitwiseOr", "data data", 0, binaryCall("bitwise")},
	{"BitwiseXor", "data data", 0, binaryCall("bitwise")},
	{"BitwiseNot", "data", 0, unaryCall("bitwise")},
	{"Max", "data+", 0, chainCall("maximum")},
	{"Min", "data+", 0, chainCall("minimum")},
	{"ReduceProd", "data number?", 0, emitReduce("prod", "")},
	{"ReduceL1", "data number?", 0, emitReduce("norm1", "")},
	{"ReduceLogSumExp", "data number?", 0, emitReduce("logsumexp", "")},
	{"Scatter", "data data data", 0, emitScatter},
	{"Col2Im", "data data data", 0, spatialCall("col2im")},
	{"RoiAlign", "data data data", 0, emitROIAlign},
	{"LpNormalization", "data", 0, alongAxis("normalize", -1)},
}

// chainCall emits an operator of two arguments for a node of any number of them, from the left.
func chainCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		in := b.values(n)
		if len(in) == 1 {
			b.same[n.Output(0)] = b.in(n, 0)
			return
		}
		b.chained(len(in) - 2)
		acc := in[0]
		for i := 1; i < len(in)-1; i++ {
			acc = b.temp(op, program.Args{}, b.elem(n.Output(0)), b.dims(n.Output(0)), acc, in[i])
		}
		b.call(op, program.Args{}, []program.ValueID{acc, in[len(in)-1]}, n.Output(0))
	}
}

// mostChained is how many calls beyond one each the nodes of a graph may take that have any number of arguments. No
// exporter writes thousands; a file of five bytes for each would make hundreds for each byte of these.
const mostChained = 5000

// chained counts what a chain of calls has beyond one.
func (b *recovery) chained(more int) {
	if b.chains += max(more, 0); b.chains > mostChained {
		b.fail("nodes of any number of arguments, such as Sum, make more than %d calls beyond one each", mostChained)
	}
}

func emitROIAlign(b *recovery, n *onnxload.Node) {
	rois := b.in(n, 1)
	in := []program.ValueID{b.value(b.in(n, 0)), b.device(b.value(rois), rois)}
	b.call("roi_align", program.Args{Shape: b.dims(n.Output(0))}, in, n.Output(0))
}

// alongAxis emits an operator over the dimension of the axis attribute.
func alongAxis(op string, def int64) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		a := b.axis(n, def, len(b.dims(n.Output(0))))
		b.call(op, program.Args{Dims: []int{a}}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
	}
}
