package eager

import (
	"slices"

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
	{"Abs", unaryCall("abs")}, {"Neg", unaryCall("neg")}, {"Sign", unaryCall("floor")},
	{"Floor", unaryCall("floor")}, {"Ceil", unaryCall("floor")}, {"Round", unaryCall("floor")},
	{"Clip", emitClip}, {"Pow", binaryCall("pow")},
	{"Add", emitAdd}, {"Sub", binaryCall("sub")}, {"Mul", binaryCall("mul")}, {"Div", binaryCall("div")},
	{"Sum", emitSum},
	{"Equal", binaryCall("compare")}, {"Less", binaryCall("compare")}, {"LessOrEqual", binaryCall("compare")},
	{"Greater", binaryCall("compare")}, {"GreaterOrEqual", binaryCall("compare")}, {"And", binaryCall("compare")},
	{"Or", binaryCall("compare")}, {"Xor", binaryCall("compare")}, {"Not", unaryCall("compare")}, {"IsNaN", unaryCall("compare")}, {"IsInf", unaryCall("compare")},
	{"Where", emitWhere}, {"Cast", emitCast}, {"CastLike", emitCast}, {"Dropout", emitDropout},
	{"Softmax", emitSoftmax("softmax")}, {"LogSoftmax", emitSoftmax("log_softmax")},

	{"Hardmax", unaryCall("floor")}, {"Mean", emitSum},

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
	var in []ValueID
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
	b.call("opaque", Args{}, in, outs...)
}

// isRead reports whether a node or the caller gets a value.
func (b *recovery) isRead(id onnxload.ValueID) bool {
	id = b.id(id)
	return len(b.uses[id]) > 0 || b.out[id]
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

func (b *recovery) values(n *onnxload.Node) []ValueID {
	in := make([]ValueID, len(n.In))
	for i := range n.In {
		in[i] = b.value(b.in(n, i))
	}
	return in
}

func unaryCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		b.call(op, Args{Inplace: b.inPlace(n)}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
	}
}

func binaryCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) { b.call(op, Args{}, b.values(n), n.Out[0]) }
}

// emitAdd is add, or add_ where a residual block of convolutions ends: out += identity after a
// normalisation and before a ReLU is how these are written, and saves nothing for backward.
func emitAdd(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	var args Args
	if relu, _ := b.user(n.Out[0], "Relu"); relu != nil && len(b.dims(n.Out[0])) > 3 {
		for i := range 2 {
			p, _ := b.producer(b.in(n, i))
			if p != nil && (p.Op == "BatchNormalization" || b.isFolded(p)) && b.single(b.in(n, i)) && slices.Equal(b.dims(b.in(n, i)), b.dims(n.Out[0])) {
				args.Inplace = true
				in[0], in[1] = in[i], in[1-i]
				break
			}
		}
	}
	b.call("add", args, in, n.Out[0])
}

func emitPRelu(b *recovery, n *onnxload.Node) {
	b.call("prelu", Args{}, b.values(n), n.Out[0])
}

// emitClip is hardtanh (ReLU6) where both bounds are numbers, as modules write it; clamp otherwise.
func emitClip(b *recovery, n *onnxload.Node) {
	op := "clamp"
	lo, hi := b.in(n, 1) != onnxload.NoValue || n.Attr("min") != nil, b.in(n, 2) != onnxload.NoValue || n.Attr("max") != nil
	if b.isNumber(b.in(n, 1), 0) && b.isNumber(b.in(n, 2), 6) || n.Attr("min") != nil && n.Attr("max") != nil || b.isNumber(b.in(n, 1), -1) && b.isNumber(b.in(n, 2), 1) {
		op = "hardtanh"
	}
	b.call(op, Args{Both: lo && hi, Inplace: op == "hardtanh" && b.inPlace(n)}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func emitSum(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	acc := in[0]
	for i := 1; i < len(in)-1; i++ {
		acc = b.temp("add", Args{}, b.elem(n.Out[0]), b.dims(n.Out[0]), acc, in[i])
	}
	if len(in) == 1 {
		b.call("clone", Args{}, in, n.Out[0])
		return
	}
	b.call("add", Args{}, []ValueID{acc, in[len(in)-1]}, n.Out[0])
}

// emitWhere is where, or masked_fill: that exports as a choice of a number where the mask is set, of the tensor
// elsewhere. torch.where with a number has it the other way round in the code that masks attention.
func emitWhere(b *recovery, n *onnxload.Node) {
	in, out := b.values(n), n.Out[0]
	number := b.prog.Values[in[1]].Kind == Number && b.elem(out).IsFloat()
	if number && b.prog.Values[in[2]].Kind == Activation && slices.Equal(b.dims(b.in(n, 2)), b.dims(out)) {
		b.call("masked_fill", Args{}, []ValueID{in[2], in[0]}, out)
		return
	}
	b.call("where", Args{}, in, out)
}

func emitCast(b *recovery, n *onnxload.Node) {
	b.call("to", Args{DType: b.elem(n.Out[0])}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

// emitDropout is native_dropout; the exports that keep it set training_mode.
func emitDropout(b *recovery, n *onnxload.Node) {
	p := 0.5
	if x, ok := b.number(b.in(n, 1)); ok {
		p = x
	} else if a := n.Attr("ratio"); a != nil {
		p = float64(a.Float)
	}
	b.call("dropout", Args{P: p, Train: b.src.Train}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func emitSoftmax(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		b.call(op, Args{}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
	}
}

// emitGemm is linear when the weight is a parameter, else addmm.
func emitGemm(b *recovery, n *onnxload.Node) {
	x, w, bias := b.in(n, 0), b.in(n, 1), b.in(n, 2)
	transB := n.Attr("transB") != nil && n.Attr("transB").Int != 0
	transA := n.Attr("transA") != nil && n.Attr("transA").Int != 0
	in := []ValueID{b.value(x), NoValue, b.value(bias)}
	switch {
	case b.isParameter(w) && !transA && transB:
		in[1] = b.value(w)
		b.call("linear", Args{}, in, n.Out[0])
		return
	case transB:
		d := b.dims(w)
		in[1] = b.temp("permute", Args{Dims: []int{1, 0}}, b.elem(w), []int64{d[1], d[0]}, b.value(w))
	default:
		in[1] = b.value(w)
	}
	if transA {
		d := b.dims(x)
		in[0] = b.temp("permute", Args{Dims: []int{1, 0}}, b.elem(x), []int64{d[1], d[0]}, in[0])
	}
	if in[2] == NoValue {
		b.call("matmul", Args{}, in[:2], n.Out[0])
		return
	}
	b.call("addmm", Args{}, []ValueID{in[2], in[0], in[1]}, n.Out[0])
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

func emitConv(b *recovery, n *onnxload.Node) {
	args := Args{
		Shape: b.dims(n.Out[0]), Groups: attrInt(n, "group", 1), Stride: attrInts(n, "strides"),
		Pad: attrInts(n, "pads"), Dilate: attrInts(n, "dilations"),
	}
	op := "conv"
	if n.Op == "ConvTranspose" {
		op, args.Mode = "conv_transpose", "transposed"
	}
	in := []ValueID{b.value(b.in(n, 0)), b.value(b.in(n, 1)), NoValue}
	if b.isFolded(n) {
		b.emitFolded(n, op, args, in)
		return
	}
	if bias := b.in(n, 2); bias != onnxload.NoValue && !b.zeroBias(bias) {
		in[2] = b.value(bias)
	}
	b.call(op, args, in, n.Out[0])
}

// zeroBias reports whether a convolution's bias is the zero that exporters put where
// the module has none.
func (b *recovery) zeroBias(id onnxload.ValueID) bool {
	return !b.isParameter(id) && b.m.Values[b.id(id)].Init == nil
}

func emitBatchNorm(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	for _, i := range []int{3, 4} {
		if i < len(in) {
			b.value(b.in(n, i)) // the running statistics belong to the module
		}
	}
	if len(in) < 3 {
		b.opaque(n)
		return
	}
	b.call("batch_norm", Args{Train: b.src.Train}, in[:3], n.Out[0])
}

func emitInstanceNorm(b *recovery, n *onnxload.Node) {
	b.call("instance_norm", Args{}, b.values(n), n.Out[0])
}

func emitLayerNorm(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		d := b.dims(b.in(n, 0))
		a := b.axis(n, -1, len(d))
		b.call(op, Args{Shape: d[a:]}, b.values(n), n.Out[0])
	}
}

func emitGroupNorm(b *recovery, n *onnxload.Node) {
	b.call("group_norm", Args{Groups: attrInt(n, "num_groups", 1)}, b.values(n), n.Out[0])
}

func spatialCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		in := []ValueID{b.value(b.in(n, 0))}
		if op == "grid_sample" {
			in = append(in, b.value(b.in(n, 1)))
		}
		b.call(op, Args{Shape: b.dims(n.Out[0]), Kernel: attrInts(n, "kernel_shape"), Stride: attrInts(n, "strides")}, in, n.Out[0])
	}
}

func emitPad(b *recovery, n *onnxload.Node) {
	op := "constant_pad"
	if a := n.Attr("mode"); a != nil && a.Str != "constant" {
		op = "reflection_pad"
	}
	in, out := b.dims(b.in(n, 0)), b.dims(n.Out[0])
	if slices.Equal(in, out) {
		b.same[n.Out[0]] = b.in(n, 0)
		return
	}
	b.call(op, Args{Shape: out}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

// emitSqueeze is a view, and contiguous after it where nn.MultiheadAttention has turned its packed projection so that
// query, key and value come first and are then picked one by one: the exporters leave that copy out, but what
// follows looks at each part in another shape without one.
func emitSqueeze(b *recovery, n *onnxload.Node) {
	x, out := b.in(n, 0), b.id(n.Out[0])
	p, _ := b.producer(x)
	d := b.dims(out)
	packed := p != nil && p.Op == "Transpose" && len(d) > 1 && d[0] > 1 && int64(len(b.uses[out])) == d[0]
	for _, i := range b.uses[out] {
		g := b.nodes[i]
		packed = packed && g.Op == "Gather" && attrInt(g, "axis", 0) == 0 && len(b.dims(b.in(g, 1))) == 0
	}
	if !packed || !b.src.Train && b.batchFirst(p) {
		emitReshape(b, n)
		return
	}
	view := b.temp("reshape", Args{Shape: d}, b.elem(out), d, b.value(x))
	b.call("contiguous", Args{}, []ValueID{view}, out)
}

// batchFirst reports whether the packed projection before node n is of a module with batch_first, which swaps the batch
// with the steps before it projects. Its inference takes the path of _native_multi_head_attention, without the copy.
func (b *recovery) batchFirst(n *onnxload.Node) bool {
	for range 8 { // the projection is a few nodes away
		p, _ := b.producer(b.in(n, 0))
		if p == nil {
			p, _ = b.producer(b.in(n, 1)) // a bias comes first
		}
		if p == nil {
			return false
		}
		if n = p; n.Op == "MatMul" || n.Op == "Gemm" {
			t, _ := b.producer(b.in(n, 0))
			return t != nil && t.Op == "Transpose" && slices.Equal(attrInts(t, "perm"), []int64{1, 0, 2})
		}
	}
	return false
}

func emitReshape(b *recovery, n *onnxload.Node) {
	b.call("reshape", Args{Shape: b.dims(n.Out[0])}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func emitTranspose(b *recovery, n *onnxload.Node) {
	rank := len(b.dims(n.Out[0]))
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	for i, p := range attrInts(n, "perm") {
		perm[i] = int(p)
	}
	if b.isBiasTable(n, perm) {
		v := b.temp("permute", Args{Dims: perm}, b.elem(n.Out[0]), b.dims(n.Out[0]), b.value(b.in(n, 0)))
		b.call("contiguous", Args{}, []ValueID{v}, n.Out[0])
		return
	}
	b.call("permute", Args{Dims: perm}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

// isBiasTable recognises the end of table[index].view(N, N, heads).permute(2, 0, 1).contiguous(), by which window
// attention looks its relative position bias up; the exporters drop the copy.
func (b *recovery) isBiasTable(n *onnxload.Node, perm []int) bool {
	if !slices.Equal(perm, []int{2, 0, 1}) {
		return false
	}
	r, _ := b.producer(b.in(n, 0))
	if r == nil || r.Op != "Reshape" {
		return false
	}
	g, _ := b.producer(b.in(r, 0))
	return g != nil && g.Op == "Gather" && len(b.dims(b.in(g, 1))) == 1
}

func emitExpand(b *recovery, n *onnxload.Node) {
	b.call("expand", Args{Shape: b.dims(n.Out[0])}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func emitTile(b *recovery, n *onnxload.Node) {
	if slices.Equal(b.dims(b.in(n, 0)), b.dims(n.Out[0])) {
		b.same[n.Out[0]] = b.in(n, 0)
		return
	}
	b.call("tile", Args{Shape: b.dims(n.Out[0])}, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

// emitSlice is a slice for every dimension that gets shorter or is stepped through.
func emitSlice(b *recovery, n *onnxload.Node) {
	in, out := b.dims(b.in(n, 0)), b.dims(n.Out[0])
	var args Args
	for i := range in {
		if in[i] != out[i] {
			args.Dims = append(args.Dims, i)
			args.Shape = append(args.Shape, out[i])
		}
	}
	b.call("slice", args, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
}

func emitSplit(b *recovery, n *onnxload.Node) {
	args := Args{Dim: b.axis(n, 0, len(b.dims(b.in(n, 0))))}
	for _, o := range n.Out {
		args.Shape = append(args.Shape, b.dims(o)[args.Dim])
	}
	b.call("split", args, []ValueID{b.value(b.in(n, 0))}, n.Out...)
}

// axis returns the axis attribute, counted from the front.
func (b *recovery) axis(n *onnxload.Node, def int64, rank int) int {
	a := int(attrInt(n, "axis", def))
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= max(rank, 1) {
		b.fail("axis %d of node %q is outside a tensor of rank %d", a, n.Name, rank)
		return 0
	}
	return a
}

func emitConcat(b *recovery, n *onnxload.Node) {
	var in []ValueID
	for i := range n.In {
		if v := b.in(n, i); v != onnxload.NoValue && numel(b.dims(v)) > 0 {
			in = append(in, b.device(b.value(v), v))
		}
	}
	if len(in) == 0 {
		emitFill(b, n)
		return
	}
	b.call("cat", Args{Dim: b.axis(n, 0, len(b.dims(n.Out[0])))}, in, n.Out[0])
}

// device returns v, or for a Python number a tensor of it.
func (b *recovery) device(v ValueID, id onnxload.ValueID) ValueID {
	if b.prog.Values[v].Kind != Number {
		return v
	}
	return b.temp("fill", Args{DType: b.elem(id), Shape: b.dims(id)}, b.elem(id), b.dims(id))
}

// emitGather is embedding of a table by integers, select by one number, or index_select.
func emitGather(b *recovery, n *onnxload.Node) {
	x, idx := b.in(n, 0), b.in(n, 1)
	d := b.dims(x)
	a := b.axis(n, 0, len(d))
	switch {
	case b.isParameter(x) && a == 0 && len(d) == 2 && !b.host[idx] && !b.rowOfBuffer(idx):
		b.call("embedding", Args{}, []ValueID{b.value(x), b.value(idx)}, n.Out[0])
	case len(b.dims(idx)) == 0:
		b.call("select", Args{Dim: a}, []ValueID{b.value(x)}, n.Out[0])
	default:
		b.call("index", Args{Dim: a, Shape: b.dims(n.Out[0])}, []ValueID{b.value(x), b.device(b.value(idx), idx)}, n.Out[0])
	}
}

// rowOfBuffer reports whether a value is a buffer of one dimension, or one seen so: such as the places of a table of
// relative positions, which are looked up as table[index]. Tokens and their positions come in batches.
func (b *recovery) rowOfBuffer(id onnxload.ValueID) bool {
	if len(b.dims(id)) != 1 {
		return false
	}
	id = b.id(id)
	for p, _ := b.producer(id); p != nil && (p.Op == "Reshape" || p.Op == "Flatten"); p, _ = b.producer(id) {
		id = b.in(p, 0)
	}
	return id != onnxload.NoValue && b.src.Kinds[id] == Buffer
}

func emitGatherElements(b *recovery, n *onnxload.Node) {
	b.call("gather", Args{}, b.values(n), n.Out[0])
}

func emitGatherND(b *recovery, n *onnxload.Node) {
	idx := b.in(n, 1)
	b.call("index", Args{Shape: b.dims(n.Out[0])}, []ValueID{b.value(b.in(n, 0)), b.device(b.value(idx), idx)}, n.Out[0])
}

func emitScatter(b *recovery, n *onnxload.Node) {
	in := make([]ValueID, 3)
	for i := range in {
		in[i] = b.device(b.value(b.in(n, i)), b.in(n, i))
	}
	b.call("scatter", Args{}, in, n.Out[0])
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
		b.call(op, args, []ValueID{b.value(b.in(n, 0))}, n.Out[0])
	}
}

// reduction returns the dimensions that a reduction works on.
func (b *recovery) reduction(n *onnxload.Node) Args {
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
	if n.Op == "ArgMax" || n.Op == "ArgMin" {
		axes = []int64{attrInt(n, "axis", 0)}
	}
	args := Args{Keep: attrInt(n, "keepdims", 1) != 0}
	args.Dims = make([]int, 0, len(axes))
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		args.Dims = append(args.Dims, int(a))
	}
	return args
}

func emitTopK(b *recovery, n *onnxload.Node) {
	b.call("topk", Args{Shape: b.dims(n.Out[0])}, []ValueID{b.value(b.in(n, 0))}, n.Out...)
}

// emitFill makes a tensor on the GPU from nothing.
func emitFill(b *recovery, n *onnxload.Node) {
	for _, o := range n.Out {
		if o != onnxload.NoValue {
			b.call("fill", Args{DType: b.elem(o), Shape: b.dims(o)}, nil, o)
		}
	}
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
	if p, _ := b.producer(b.in(n, 0)); p != nil && p.Op == "Add" {
		return n.Op == "Relu" && len(b.dims(n.Out[0])) > 3 && b.single(b.in(n, 0))
	}
	return b.inPlaceAfter(b.in(n, 0), 1)
}

// inPlaceAfter reports whether a value that only these reads use comes from a convolution or a
// normalisation of one.
func (b *recovery) inPlaceAfter(x onnxload.ValueID, reads int) bool {
	if p, _ := b.producer(x); p != nil && len(b.uses[b.id(x)]) == reads && !b.out[b.id(x)] && len(b.dims(x)) > 0 {
		switch p.Op {
		case "Conv", "ConvTranspose", "BatchNormalization", "InstanceNormalization":
			return true
		}
	}
	return false
}

func emitEinsum(b *recovery, n *onnxload.Node) {
	eq := ""
	if a := n.Attr("equation"); a != nil {
		eq = a.Str
	}
	b.call("einsum", Args{Mode: eq, Shape: b.dims(n.Out[0])}, b.values(n), n.Out[0])
}

// emitAttention is scaled_dot_product_attention of [B, H, L, D]; in three dimensions the heads are taken apart first.
func emitAttention(b *recovery, n *onnxload.Node) {
	args := Args{Causal: attrInt(n, "is_causal", 0) != 0, Train: b.src.Train}
	in := make([]ValueID, 4)
	for i := range in {
		in[i] = b.value(b.in(n, i))
	}
	out := b.dims(n.Out[0])
	if len(out) == 4 {
		b.withPast(n, in)
		b.call("sdpa", args, in, n.Out[0])
		b.rest(n, 1)
		return
	}
	heads := []int64{attrInt(n, "q_num_heads", 1), attrInt(n, "kv_num_heads", 1), attrInt(n, "kv_num_heads", 1)}
	for i := range 3 {
		d := b.dims(b.in(n, i))
		if len(d) != 3 || heads[i] <= 0 || d[2]%heads[i] != 0 {
			b.fail("attention node %q: input %d has shape %v and %d heads", n.Name, i, d, heads[i])
			return
		}
		split := []int64{d[0], d[1], heads[i], d[2] / heads[i]}
		v := b.temp("reshape", Args{Shape: split}, b.elem(b.in(n, i)), split, in[i])
		in[i] = b.temp("permute", Args{Dims: []int{0, 2, 1, 3}}, b.elem(b.in(n, i)), []int64{d[0], heads[i], d[1], d[2] / heads[i]}, v)
	}
	b.withPast(n, in)
	vd := b.prog.Values[in[2]].Shape[3]
	elem := b.elem(n.Out[0])
	y := b.temp("sdpa", args, elem, []int64{out[0], heads[0], out[1], vd}, in...)
	y = b.temp("permute", Args{Dims: []int{0, 2, 1, 3}}, elem, []int64{out[0], out[1], heads[0], vd}, y)
	b.call("reshape", Args{Shape: out}, []ValueID{y}, n.Out[0])
	b.rest(n, 1)
}

// withPast puts the keys and values of earlier tokens, which an Attention node may be given, before those at hand; both
// are results of the node.
func (b *recovery) withPast(n *onnxload.Node, in []ValueID) {
	for i := 1; i <= 2; i++ {
		past := b.in(n, 3+i)
		if past == onnxload.NoValue || in[i] == NoValue {
			continue
		}
		v := b.prog.Values[in[i]]
		before := b.dims(past)
		if len(before) != 4 || len(v.Shape) != 4 {
			continue
		}
		shape := slices.Clone(v.Shape)
		shape[2] += before[2]
		in[i] = b.temp("cat", Args{Dim: 2}, v.DType, shape, b.device(b.value(past), past), in[i])
		if i < len(n.Out) && n.Out[i] != onnxload.NoValue {
			b.of[n.Out[i]] = in[i]
		}
	}
}
