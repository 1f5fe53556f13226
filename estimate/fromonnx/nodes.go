package fromonnx

import (
	"maps"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/onnxload"
)

// A nodeRow says which PyTorch calls one ONNX operator stands for when it is in no pattern.
type nodeRow struct {
	op   string
	emit func(b *recovery, n *onnxload.Node)
}

// nodeRows lists the operators by family.
var nodeRows = index(mathNodes, listNodes, rareNodes, []nodeRow{
	{"Relu", unaryCall("relu")}, {"LeakyRelu", unaryCall("leaky_relu")}, {"PRelu", emitPRelu},
	{"Elu", unaryCall("elu")}, {"Selu", unaryCall("elu")}, {"Celu", unaryCall("elu")},
	{"Gelu", unaryCall("gelu")}, {"Mish", unaryCall("mish")}, {"Swish", unaryCall("silu")},
	{"HardSwish", unaryCall("hardswish")}, {"HardSigmoid", unaryCall("hardsigmoid")},
	{"Softplus", unaryCall("softplus")}, {"Softsign", unaryCall("softsign")},
	{"Sigmoid", unaryCall("sigmoid")}, {"Tanh", unaryCall("tanh")}, {"Erf", unaryCall("erf")},
	{"Exp", unaryCall("exp")}, {"Log", unaryCall("log")}, {"Sqrt", unaryCall("sqrt")},
	{"Reciprocal", unaryCall("reciprocal")}, {"Sin", unaryCall("sin")}, {"Cos", unaryCall("cos")},
	{"Abs", unaryCall("abs")}, {"Neg", unaryCall("neg")}, {"Sign", unaryCall("sign")},
	{"Floor", unaryCall("floor")}, {"Ceil", unaryCall("ceil")}, {"Round", unaryCall("round")},
	{"Clip", emitClip}, {"Pow", binaryCall("pow")},
	{"Add", emitAdd}, {"Sub", binaryCall("sub")}, {"Mul", emitMul}, {"Div", binaryCall("div")},
	{"Sum", emitSum},
	{"Equal", binaryCall("compare")}, {"Less", binaryCall("compare")}, {"LessOrEqual", binaryCall("compare")},
	{"Greater", binaryCall("compare")}, {"GreaterOrEqual", binaryCall("compare")}, {"And", binaryCall("compare")},
	{"Or", binaryCall("compare")}, {"Xor", binaryCall("compare")}, {"Not", unaryCall("compare")}, {"IsNaN", unaryCall("compare")}, {"IsInf", unaryCall("compare")},
	{"Where", emitWhere}, {"Cast", emitCast}, {"CastLike", emitCast}, {"Dropout", emitDropout},
	{"Softmax", emitSoftmax("softmax")}, {"LogSoftmax", emitSoftmax("log_softmax")},

	{"Hardmax", unaryCall("hardmax")}, {"Mean", emitSum},

	{"Gemm", emitGemm}, {"MatMul", binaryCall("matmul")}, {"Einsum", emitEinsum}, {"Attention", emitAttention},
	{"Conv", emitConv}, {"ConvTranspose", emitConv},
	{"BatchNormalization", emitBatchNorm}, {"InstanceNormalization", emitInstanceNorm},
	{"LayerNormalization", emitLayerNorm("layer_norm")}, {"RMSNormalization", emitLayerNorm("rms_norm")},
	{"GroupNormalization", emitGroupNorm},

	{"MaxPool", spatialCall("max_pool")}, {"AveragePool", spatialCall("avg_pool")}, {"LpPool", spatialCall("avg_pool")},
	{"GlobalAveragePool", spatialCall("adaptive_avg_pool")}, {"GlobalMaxPool", spatialCall("adaptive_max_pool")},
	{"Resize", spatialCall("upsample")}, {"Upsample", spatialCall("upsample")}, {"GridSample", spatialCall("grid_sample")},
	{"DepthToSpace", spatialCall("pixel_shuffle")}, {"SpaceToDepth", spatialCall("pixel_shuffle")}, {"Pad", emitPad},

	{"Reshape", emitReshape}, {"Flatten", emitReshape}, {"Squeeze", emitSqueeze}, {"Unsqueeze", emitReshape},
	{"Transpose", emitTranspose}, {"Expand", emitExpand}, {"Tile", emitTile}, {"Slice", emitSlice},
	{"Split", emitSplit}, {"Concat", emitConcat}, {"Trilu", unaryCall("tril")},
	{"Gather", emitGather}, {"GatherElements", emitGatherElements}, {"GatherND", emitGatherND},
	{"ScatterElements", emitScatter}, {"ScatterND", emitScatter},

	{"ReduceMean", emitReduce("mean")}, {"ReduceSum", emitReduce("sum")}, {"ReduceMax", emitReduce("amax")},
	{"ReduceMin", emitReduce("amax")}, {"ReduceL2", emitReduce("norm")},
	{"ArgMax", emitReduce("argmax")}, {"ArgMin", emitReduce("argmax")}, {"CumSum", unaryCall("cumsum")}, {"TopK", emitTopK},

	{"ConstantOfShape", emitFill}, {"Range", emitFill}, {"Constant", emitFill}, {"EyeLike", emitFill}, {"RandomNormalLike", emitFill},
	{"RandomUniformLike", emitFill}, {"RandomNormal", emitFill}, {"RandomUniform", emitFill}, {"OneHot", emitFill}, {"NonZero", emitFill}, {"Bernoulli", emitFill},
	{"Compress", emitFill}, {"Unique", emitFill}, {"NonMaxSuppression", emitFill}, {"Multinomial", emitFill},
})

// Operators returns the operators of ONNX's own domain that have a row, sorted.
func Operators() []string { return slices.Sorted(maps.Keys(nodeRows)) }

func index(families ...[]nodeRow) map[string]func(*recovery, *onnxload.Node) {
	m := make(map[string]func(*recovery, *onnxload.Node))
	for _, rows := range families {
		for _, r := range rows {
			m[r.op] = r.emit
		}
	}
	return m
}

// node emits the calls of a node. An operator without a row still makes its outputs, so
// that the graph goes on, and is counted.
func (b *recovery) node(n *onnxload.Node) {
	if n.Domain == "" && (n.Op == "Loop" || n.Op == "Scan") {
		b.loop(n)
		return
	}
	if n.Domain == "" && n.Out[0] != onnxload.NoValue {
		if emit := nodeRows[n.Op]; emit != nil {
			emit(b, n)
			return
		}
	}
	if n.Domain == contribDomain && n.Out[0] != onnxload.NoValue {
		if emit := contribRows[n.Op]; emit != nil {
			emit(b, n)
			return
		}
	}
	b.opaque(n)
}

// opaque emits a node of which no more is known than its arguments and results.
func (b *recovery) opaque(n *onnxload.Node) {
	b.unknown[int32(b.at)] = b.nodeName()
	var in []aten.ValueID
	for i := range n.In {
		if id := b.in(n, i); b.isTensor(id) {
			in = append(in, b.value(id))
		}
	}
	var outs []onnxload.ValueID
	for _, o := range n.Out {
		if b.isTensor(o) && b.of[o] == unset && (b.sized(o) || b.isRead(o)) {
			outs = append(outs, o)
		}
	}
	b.call("opaque", aten.Args{}, in, outs...)
}

// isRead reports whether a node or the caller gets a value.
func (b *recovery) isRead(id onnxload.ValueID) bool {
	id = b.id(id)
	return len(b.usesOf(id)) > 0 || b.out[id]
}

// isTensor reports whether a value is a tensor, no sequence or optional.
func (b *recovery) isTensor(id onnxload.ValueID) bool {
	return id != onnxload.NoValue && b.types.Type(id).Kind == onnxload.TensorType
}

// nodeName names the operator of the node at hand, with its domain unless that is ONNX's own.
func (b *recovery) nodeName() string {
	n := b.nodes[b.at]
	if n.Domain != "" {
		return n.Domain + "::" + n.Op
	}
	return n.Op
}

func (b *recovery) values(n *onnxload.Node) []aten.ValueID {
	in := make([]aten.ValueID, len(n.In))
	for i := range n.In {
		in[i] = b.value(b.in(n, i))
	}
	return in
}

func unaryCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		b.call(op, aten.Args{Inplace: b.inPlace(n)}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
	}
}

func binaryCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		inPlace, _ := b.saysInPlace(n)
		b.call(op, aten.Args{Inplace: inPlace && len(n.In) == 2}, b.values(n), n.Out[0])
	}
}

// emitAdd is add, or add_ where a residual block of convolutions ends: out += identity after a
// normalisation, and before a ReLU whichever comes first, is how these are written, and saves nothing for backward.
// Without a ReLU, result += input of MobileNetV3, EfficientNet and ConvNeXt has the block's result first; the
// x + block(x) of others has not, and the sum of two blocks is that of two branches.
func emitAdd(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	var args aten.Args
	sides := 1
	if relu, _ := b.user(n.Out[0], "Relu"); relu != nil {
		sides = 2
	}
	if yes, known := b.saysInPlace(n); known {
		args.Inplace, sides = yes, 0
	}
	for i := range sides {
		if v, other := b.in(n, i), b.in(n, 1-i); b.endsBlock(v) && slices.Equal(b.dims(v), b.dims(other)) && (sides == 2 || !b.endsBlock(other)) && b.guess(dialect.ResidualInPlace) {
			args.Inplace = true
			in[0], in[1] = in[i], in[1-i]
			break
		}
	}
	b.call("add", args, in, n.Out[0])
}

// endsBlock reports whether a value that is read once is the picture that a block of convolutions ends with: normalised, or
// scaled by a parameter, stochastic depth or not.
func (b *recovery) endsBlock(v onnxload.ValueID) bool {
	if !b.single(v) || len(b.dims(v)) < 4 {
		return false
	}
	p, _ := b.producer(b.unnoised(v))
	return p != nil && (p.Op == "BatchNormalization" || b.isFolded(p) || p.Op == "Mul" && (b.isParameter(b.in(p, 0)) || b.isParameter(b.in(p, 1))))
}

// emitClip is hardtanh (ReLU6) where both bounds are numbers, as modules write it; clamp otherwise.
func emitClip(b *recovery, n *onnxload.Node) {
	op := "clamp"
	lo, hi := b.in(n, 1) != onnxload.NoValue || n.Attr("min") != nil, b.in(n, 2) != onnxload.NoValue || n.Attr("max") != nil
	if b.isNumber(b.in(n, 1), 0) && b.isNumber(b.in(n, 2), 6) || n.Attr("min") != nil && n.Attr("max") != nil || b.isNumber(b.in(n, 1), -1) && b.isNumber(b.in(n, 2), 1) {
		op = "hardtanh"
	}
	b.call(op, aten.Args{Both: lo && hi, Inplace: op == "hardtanh" && b.inPlace(n)}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func emitSum(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	acc := in[0]
	for i := 1; i < len(in)-1; i++ {
		acc = b.temp("add", aten.Args{}, b.elem(n.Out[0]), b.dims(n.Out[0]), acc, in[i])
	}
	if len(in) == 1 {
		b.call("clone", aten.Args{}, in, n.Out[0])
		return
	}
	b.call("add", aten.Args{}, []aten.ValueID{acc, in[len(in)-1]}, n.Out[0])
}

// emitWhere is where, or masked_fill: that exports as a choice of a number where the mask is set, of the tensor
// elsewhere. torch.where with a number has it the other way round in the code that masks attention.
func emitWhere(b *recovery, n *onnxload.Node) {
	in, out := b.values(n), n.Out[0]
	number := b.prog.Values[in[1]].Kind == aten.Number && b.elem(out).IsFloat()
	if number && b.prog.Values[in[2]].Kind == aten.Activation && slices.Equal(b.dims(b.in(n, 2)), b.dims(out)) {
		b.call("masked_fill", aten.Args{}, []aten.ValueID{in[2], in[0]}, out)
		return
	}
	b.call("where", aten.Args{}, in, out)
}

func emitCast(b *recovery, n *onnxload.Node) {
	b.call("to", aten.Args{DType: b.elem(n.Out[0])}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func attrInts(n *onnxload.Node, name string) []int64 {
	if a := n.Attr(name); a != nil {
		return a.Ints
	}
	return nil
}

func attrInt(n *onnxload.Node, name string, def int64) int64 {
	if a := n.Attr(name); a != nil {
		return a.Int
	}
	return def
}

// emitReduce reads the axes from the attribute or, in later opsets, from the input; how the
// output's shape differs tells them where neither can be read.
func emitReduce(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		args := b.reduction(n)
		if len(args.Dims) == 0 && attrInt(n, "noop_with_empty_axes", 0) != 0 {
			b.same[n.Out[0]] = b.in(n, 0)
			return
		}
		if op == "amax" && b.withPlaces(args) {
			b.call("max_dim", args, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0], onnxload.NoValue)
			return
		}
		b.call(op, args, []aten.ValueID{b.value(b.in(n, 0))}, n.Out[0])
	}
}

// withPlaces reports whether the largest or least of a dimension were asked for with their places, x.max(dim), which backward
// scatters to, rather than alone, x.amax(dim). Both are exported alike; torch.export notes the operator, and else
// a single dimension that is dropped is taken for the older and more common call. max takes no more than one.
func (b *recovery) withPlaces(args aten.Args) bool {
	switch b.places[b.at].Op {
	case "max", "min":
		return len(args.Dims) == 1
	case "":
		if len(args.Dims) == 1 && !args.Keep && b.guess(dialect.MaxWithPlaces) {
			b.maxima++
			return !b.src.Most
		}
	}
	return false
}

// reduction returns the dimensions that a reduction works on.
func (b *recovery) reduction(n *onnxload.Node) aten.Args {
	rank := len(b.dims(b.in(n, 0)))
	axes := attrInts(n, "axes")
	if axes == nil && len(n.In) > 1 {
		if c := b.types.Value(b.in(n, 1)); c != nil {
			for _, d := range c.Ints {
				k, _ := d.Int()
				axes = append(axes, k)
			}
		}
	}
	if axes == nil && b.in(n, 1) != onnxload.NoValue && b.types.Value(b.in(n, 1)) == nil {
		// They come with the data. What they did to the shape tells which they are.
		axes = reducedAxes(b.dims(b.in(n, 0)), b.dims(n.Out[0]), attrInt(n, "keepdims", 1) != 0)
	}
	if n.Op == "ArgMax" || n.Op == "ArgMin" {
		axes = []int64{attrInt(n, "axis", 0)}
	}
	args := aten.Args{Keep: attrInt(n, "keepdims", 1) != 0}
	args.Dims = make([]int, 0, len(axes))
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		args.Dims = append(args.Dims, int(a))
	}
	return args
}

// reducedAxes returns dimensions whose reduction makes a tensor of shape in one of shape out. Of several that are as
// long the first is kept. It is empty where no reduction does.
func reducedAxes(in, out []int64, keep bool) (axes []int64) {
	kept := 0
	for i, n := range in {
		switch {
		case keep && i < len(out) && (out[i] != n || n == 1), !keep && (kept == len(out) || out[kept] != n):
			axes = append(axes, int64(i))
		default:
			kept++
		}
	}
	if keep && len(out) != len(in) || !keep && kept != len(out) {
		return nil
	}
	return axes
}

func emitTopK(b *recovery, n *onnxload.Node) {
	b.call("topk", aten.Args{Shape: b.dims(n.Out[0])}, []aten.ValueID{b.value(b.in(n, 0))}, n.Out...)
}

// emitFill makes a tensor on the GPU from nothing.
func emitFill(b *recovery, n *onnxload.Node) {
	if n.Op == "Constant" && b.tableIndex(n.Out[0]) {
		return
	}
	var like []aten.ValueID
	if n.Op == "ConstantOfShape" {
		like = b.shapeGiver(b.in(n, 0), n.Out[0])
	}
	for _, o := range n.Out {
		if o != onnxload.NoValue {
			b.call("fill", aten.Args{DType: b.elem(o), Shape: b.dims(o)}, like, o)
		}
	}
}

// shapeGiver returns the tensor that zeros_like, ones_like or full_like took its shape from, which gives them its type too:
// the shape is that tensor's and was not put together of sizes. Nothing where there is none.
func (b *recovery) shapeGiver(size, out onnxload.ValueID) []aten.ValueID {
	n, _ := b.producer(size)
	if n == nil || n.Op != "Shape" || attrInt(n, "start", 0) != 0 || n.Attr("end") != nil {
		return nil
	}
	x := b.in(n, 0)
	if x == onnxload.NoValue || b.host[x] || b.fixed[x] || !b.elem(x).IsFloat() || b.elem(x) != b.elem(out) || b.of[x] == unset || !b.guess(dialect.ZerosLike) {
		return nil
	}
	return []aten.ValueID{b.value(x)}
}

// inPlace reports whether an activation is taken to write over its argument, as
// nn.ReLU(inplace=True) does. ONNX does not keep the flag. Vision models set it
// nearly everywhere after a convolution or a normalisation, whose outputs nothing
// else needs; models of linear layers do not.
func (b *recovery) inPlace(n *onnxload.Node) bool {
	switch n.Op {
	case "Relu", "Clip", "HardSwish", "LeakyRelu", "Elu":
	default:
		return false
	}
	if yes, known := b.activatesInPlace(n); known {
		return yes
	}
	if p, _ := b.producer(b.in(n, 0)); p != nil && p.Op == "Add" {
		return n.Op == "Relu" && len(b.dims(n.Out[0])) > 3 && b.single(b.in(n, 0)) && b.guess(dialect.ActivationInPlace)
	}
	return !b.ofFunction(b.in(n, 0)) && b.inPlaceAfter(b.in(n, 0), 1)
}

// ofFunction reports whether what the current node reads is the result of a convolution's module that its own module called:
// F.relu(self.conv(x)), which is not in place by default, where modules of activations are most often made with inplace=True.
// After a batch norm both are common, F.relu(self.bn(x), inplace=True) in torchvision's Inception: those stay in place.
func (b *recovery) ofFunction(x onnxload.ValueID) bool {
	conv, i := b.producer(x)
	if conv == nil || conv.Op != "Conv" && conv.Op != "ConvTranspose" || b.isFolded(conv) || b.places[b.at].Cut {
		return false
	}
	inner, outer := b.places[i].Module, b.places[b.at].Module
	return inner != "" && (outer == "" || strings.HasPrefix(inner, outer+".")) && b.guess(dialect.FunctionOfModule)
}

// inPlaceAfter reports whether a value that only these reads use comes from a convolution or a
// normalisation of one.
func (b *recovery) inPlaceAfter(x onnxload.ValueID, reads int) bool {
	if p, _ := b.producer(x); p != nil && len(b.usesOf(b.id(x))) == reads && !b.out[b.id(x)] && len(b.dims(x)) > 0 {
		switch p.Op {
		case "Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization":
			return b.guess(dialect.ActivationInPlace)
		}
	}
	return false
}
