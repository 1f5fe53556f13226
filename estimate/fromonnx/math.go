package fromonnx

import (
	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/onnxload"
)

// mathNodes are the rarer operators: functions, integer arithmetic and reductions.
var mathNodes = []nodeRow{
	{"Acos", unaryCall("acos")}, {"Asin", unaryCall("asin")}, {"Atan", unaryCall("atan")},
	{"Sinh", unaryCall("sinh")}, {"Cosh", unaryCall("cosh")}, {"Tan", unaryCall("tan")},
	{"Asinh", unaryCall("asinh")}, {"Acosh", unaryCall("acosh")}, {"Atanh", unaryCall("atanh")},
	{"Shrink", unaryCall("hardshrink")}, {"ThresholdedRelu", unaryCall("threshold")}, {"CumProd", unaryCall("cumprod")},
	{"Mod", binaryCall("remainder")}, {"BitShift", binaryCall("bitwise")}, {"BitwiseAnd", binaryCall("bitwise")},
	{"BitwiseOr", binaryCall("bitwise")}, {"BitwiseXor", binaryCall("bitwise")}, {"BitwiseNot", unaryCall("bitwise")},
	{"Max", chainCall("maximum")}, {"Min", chainCall("minimum")},
	{"ReduceProd", emitReduce("prod")}, {"ReduceL1", emitReduce("norm1")}, {"ReduceLogSumExp", emitReduce("logsumexp")},
	{"ReduceSumSquare", squared}, {"ReduceLogSum", logOfSum},
	{"Scatter", emitScatter}, {"Col2Im", spatialCall("col2im")}, {"RoiAlign", emitROIAlign},
	{"LRN", emitLRN}, {"LpNormalization", alongAxis("normalize", -1)}, {"MeanVarianceNormalization", emitMeanVariance},
}

// chainCall emits an operator of two arguments for a node of any number of them, from the left.
func chainCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		in := b.values(n)
		if len(in) == 1 {
			b.same[n.Out[0]] = b.in(n, 0)
			return
		}
		acc := in[0]
		for i := 1; i < len(in)-1; i++ {
			acc = b.temp(op, aten.Args{}, b.elem(n.Out[0]), b.dims(n.Out[0]), acc, in[i])
		}
		b.call(op, aten.Args{}, []aten.ValueID{acc, in[len(in)-1]}, n.Out[0])
	}
}

// squared is x.pow(2).sum(dims).
func squared(b *recovery, n *onnxload.Node) {
	x := b.in(n, 0)
	two := b.add(aten.Value{Kind: aten.Number, DType: aten.Int64})
	square := b.temp("pow", aten.Args{}, b.elem(x), b.dims(x), b.value(x), two)
	b.call("sum", b.reduction(n), []aten.ValueID{square}, n.Out[0])
}

// logOfSum is x.sum(dims).log().
func logOfSum(b *recovery, n *onnxload.Node) {
	x, o := b.in(n, 0), n.Out[0]
	sum := b.temp("sum", b.reduction(n), b.elem(o), b.dims(o), b.value(x))
	b.call("log", aten.Args{}, []aten.ValueID{sum}, o)
}

func emitROIAlign(b *recovery, n *onnxload.Node) {
	rois := b.in(n, 1)
	in := []aten.ValueID{b.value(b.in(n, 0)), b.device(b.value(rois), rois)}
	b.call("roi_align", aten.Args{Shape: b.dims(n.Out[0])}, in, n.Out[0])
}

func emitLRN(b *recovery, n *onnxload.Node) {
	b.call("local_response_norm", aten.Args{Kernel: []int64{attrInt(n, "size", 1)}}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

// alongAxis emits an operator over the dimension of the axis attribute.
func alongAxis(op string, def int64) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		a := b.axis(n, def, len(b.dims(n.Out[0])))
		b.call(op, aten.Args{Dims: []int{a}}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
	}
}

func emitMeanVariance(b *recovery, n *onnxload.Node) {
	axes := attrInts(n, "axes")
	if axes == nil {
		axes = []int64{0, 2, 3}
	}
	rank := len(b.dims(n.Out[0]))
	var dims []int
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		if a < 0 || a >= int64(rank) {
			b.fail("axis %d of node %q is outside a tensor of rank %d", a, n.Name, rank)
			return
		}
		dims = append(dims, int(a))
	}
	b.call("mean_variance_norm", aten.Args{Dims: dims}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

// emitMul emits a product. The TorchScript exporter writes torch.square(x) as x * x (torch/onnx/symbolic_opset9.py), and so the product of
// a rectified tensor and itself, which nothing else reads, is taken for the square that squared ReLU is written with: torch.square(F.relu(x)) in
// transformers' ReLUSquaredActivation and in RWKV. square is pow(x, 2), which autocast runs, and saves for, in float32; mul it does not.
func emitMul(b *recovery, n *onnxload.Node) {
	if x := b.in(n, 0); x != onnxload.NoValue && x == b.in(n, 1) && b.places[b.at].Op == "" && len(b.usesOf(x)) == 2 && !b.out[x] {
		if relu, _ := b.producedBy(x, "Relu"); relu != nil && b.guess(dialect.SquaredReLU) {
			b.call("square", aten.Args{}, []aten.ValueID{b.value(x)}, n.Out[0])
			return
		}
	}
	binaryCall("mul")(b, n)
}
