package recover

import (
	"slices"
	"sync"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// A nodeRow is all that is said of one ONNX operator, but for its types and shapes, which package shape has.
type nodeRow struct {
	op     string
	inputs string        // what they are: see module.Inputs
	traits module.Traits // what else it is
	// which PyTorch calls a node stands for that is in no pattern; nil where that is not known
	emit func(b *recovery, n *onnxload.Node)
}

// nodeRows are the operators that most models have, by family; others are in mathNodes, rareNodes, listNodes and
// contribRows.
var nodeRows = []nodeRow{
	{"Relu", "data", 0, activation("relu", "relu(")},
	{"LeakyRelu", "data", 0, activation("leaky_relu", "leaky_relu(")},
	{"PRelu", "data weight", 0, emitPRelu},
	{"Elu", "data", 0, emitElu},
	{"Selu", "data", 0, emitElu},
	{"Celu", "data", 0, emitElu},
	{"Gelu", "data", 0, unaryCall("gelu")},
	{"Mish", "data", 0, unaryCall("mish")},
	{"Swish", "data", 0, unaryCall("silu")},
	{"HardSwish", "data", 0, activation("hardswish", "hardswish(")},
	{"HardSigmoid", "data", 0, unaryCall("hardsigmoid")},
	{"Softplus", "data", 0, unaryCall("softplus")},
	{"Softsign", "data", 0, unaryCall("softsign")},
	{"Sigmoid", "data", 0, unaryCall("sigmoid")},
	{"Tanh", "data", 0, unaryCall("tanh")},
	{"Erf", "data", 0, unaryCall("erf")},
	{"Exp", "data", 0, unaryCall("exp")},
	{"Log", "data", 0, unaryCall("log")},
	{"Sqrt", "data", 0, unaryCall("sqrt")},
	{"Reciprocal", "data", 0, unaryCall("reciprocal")},
	{"Sin", "data", 0, unaryCall("sin")},
	{"Cos", "data", 0, unaryCall("cos")},
	{"Abs", "data", 0, unaryCall("abs")},
	{"Neg", "data", 0, unaryCall("neg")},
	{"Sign", "data", 0, unaryCall("sign")},
	{"Floor", "data", 0, unaryCall("floor")},
	{"Ceil", "data", 0, unaryCall("ceil")},
	{"Round", "data", 0, unaryCall("round")},
	{"Clip", "data number? number?", 0, emitClip},
	{"Pow", "data data", 0, binaryCall("pow")},
	{"Add", "data data", module.Affine, emitAdd},
	{"Sub", "data data", module.Affine, arithmetic("sub", "-")},
	{"Mul", "data data", module.Affine, arithmetic("mul", "*")},
	{"Div", "data data", module.Affine, arithmetic("div", "/")},
	{"Sum", "data+", 0, emitSum},
	{"Equal", "data data", module.Compares, binaryCall("compare")},
	{"Less", "data data", module.Compares, binaryCall("compare")},
	{"LessOrEqual", "data data", module.Compares, binaryCall("compare")},
	{"Greater", "data data", module.Compares, binaryCall("compare")},
	{"GreaterOrEqual", "data data", module.Compares, binaryCall("compare")},
	{"And", "data data", 0, binaryCall("compare")},
	{"Or", "data data", 0, binaryCall("compare")},
	{"Xor", "data data", 0, binaryCall("compare")},
	{"Not", "data", 0, unaryCall("compare")},
	{"IsNaN", "data", 0, unaryCall("compare")},
	{"IsInf", "data", 0, unaryCall("compare")},
	{"Where", "data data data", 0, emitWhere},
	{"Cast", "data", module.Prepares, emitCast},
	{"CastLike", "data type", module.Prepares, emitCast},
	{"Dropout", "data number? number?", module.Random, emitDropout},
	{"Softmax", "data", 0, emitSoftmax("softmax")},
	{"LogSoftmax", "data", 0, emitSoftmax("log_softmax")},

	{"Hardmax", "data", 0, unaryCall("hardmax")},
	{"Mean", "data+", 0, emitSum},

	{"Gemm", "weight weight weight?", 0, emitGemm},
	{"MatMul", "weight weight", 0, binaryCall("matmul")},
	{"Einsum", "weight+", 0, emitEinsum},
	{"Attention", "data data data data? data? data? data?", 0, emitAttention},
	{"Conv", "data weight weight?", 0, emitConv("conv", "")},
	{"ConvTranspose", "data weight weight?", 0, emitConv("conv_transpose", "transposed")},
	{"BatchNormalization", "data affine affine buffer buffer", 0, emitBatchNorm},
	{"InstanceNormalization", "data affine affine", 0, emitInstanceNorm},
	{"LayerNormalization", "data affine affine?", 0, emitLayerNorm("layer_norm")},
	{"RMSNormalization", "data weight", 0, emitLayerNorm("rms_norm")},
	{"GroupNormalization", "data affine affine", 0, emitGroupNorm},

	{"MaxPool", "data", 0, spatialCall("max_pool")},
	{"AveragePool", "data", 0, spatialCall("avg_pool")},
	{"LpPool", "data", 0, spatialCall("avg_pool")},
	{"GlobalAveragePool", "data", 0, spatialCall("adaptive_avg_pool")},
	{"GlobalMaxPool", "data", 0, spatialCall("adaptive_max_pool")},
	{"Resize", "data number? number? number?", 0, spatialCall("upsample")},
	{"Upsample", "data number?", 0, spatialCall("upsample")},
	{"GridSample", "data data", 0, spatialCall("grid_sample")},
	{"DepthToSpace", "data", 0, spatialCall("pixel_shuffle")},
	{"SpaceToDepth", "data", 0, spatialCall("pixel_shuffle")},
	{"Pad", "data number? number? number?", 0, emitPad},

	{"Identity", "data", module.View, emitIdentity}, // another name, but where it is detach or clone: see index
	{"Reshape", "data number?", module.View, emitReshape},
	{"Flatten", "data", module.View, emitReshape},
	{"Squeeze", "data number?", module.View, emitSqueeze},
	{"Unsqueeze", "data number?", module.View, emitReshape},
	{"Transpose", "data", module.View, emitTranspose},
	{"Expand", "data number", module.View, emitExpand},
	{"Tile", "data number data?", 0, emitTile},
	{"Slice", "data number? number? number? number?", module.View, emitSlice},
	{"Split", "data number?", module.View, emitSplit},
	{"Concat", "data+", module.Prepares, emitConcat},
	{"Trilu", "data number?", 0, unaryCall("tril")},
	{"Gather", "weight data", 0, emitGather},
	{"GatherElements", "data data", 0, emitGatherElements},
	{"GatherND", "data data", 0, emitGatherND},
	{"ScatterElements", "data data data", 0, emitScatter},
	{"ScatterND", "data data data", 0, emitScatterND},

	{"ReduceMean", "data number?", 0, emitReduce("mean", "")},
	{"ReduceSum", "data number?", 0, emitReduce("sum", "")},
	{"ReduceMax", "data number?", 0, emitReduce("amax", "max_dim")},
	{"ReduceMin", "data number?", 0, emitReduce("amax", "max_dim")},
	{"ReduceL2", "data number?", 0, emitReduce("norm", "")},
	{"ArgMax", "data", 0, emitArg},
	{"ArgMin", "data", 0, emitArg},
	{"CumSum", "data number", 0, unaryCall("cumsum")},
	{"TopK", "data number?", 0, emitTopK},

	{"ConstantOfShape", "number", 0, emitFilled},
	{"Range", "number number number", 0, emitFill},
	{"Constant", "", 0, emitFill},
	{"EyeLike", "like", 0, emitFill},
	{"RandomNormalLike", "like", module.Random, emitFill},
	{"RandomUniformLike", "like", module.Random, emitFill},
	{"RandomNormal", "", module.Random, emitFill},
	{"RandomUniform", "", module.Random, emitFill},
	{"OneHot", "data number data", 0, emitFill},
	{"NonZero", "data", 0, emitFill},
	{"Bernoulli", "data", module.Random, emitFill},
	{"Unique", "data", 0, emitFill},
	{"NonMaxSuppression", "data data data? data? data?", 0, emitFill},
	{"Multinomial", "data", 0, emitFill},
}

// An operator is a row as it is looked up.
type operator struct {
	module.Facts
	emit func(b *recovery, n *onnxload.Node)
}

// operators are all rows, by domain and name. They are read when a graph first asks: most commands have none.
var operators = sync.OnceValue(func() map[string]map[string]*operator {
	return index(map[string][][]nodeRow{
		"":            {nodeRows, mathNodes, listNodes, rareNodes},
		contribDomain: {contribRows},
	})
})

func index(families map[string][][]nodeRow) map[string]map[string]*operator {
	all := make(map[string]map[string]*operator, len(families))
	for domain, tables := range families {
		rows := slices.Concat(tables...)
		m := make(map[string]*operator, len(rows))
		for _, r := range rows {
			m[r.op] = &operator{module.Inputs(r.inputs, r.traits), r.emit}
		}
		all[domain] = m
	}
	return all
}

// Facts returns what an operator's row says of it; nil where it has none. ONNX Runtime keeps the names of ONNX's
// operators, and the order of their inputs, in the domains that it has for other layouts (com.microsoft.nchwc,
// com.ms.internal.nhwc).
func Facts(domain, op string) *module.Facts {
	o := operators()[domain][op]
	if o == nil && domain != "" {
		o = operators()[""][op]
	}
	if o == nil {
		return nil
	}
	return &o.Facts
}

// rowOf returns the row of a node's operator, and what is said of it. The row is nil where it has none, or where the
// node has not the inputs that the row names: rules and patterns see no such node.
func (b *recovery) rowOf(n *onnxload.Node) (*operator, *module.Facts) {
	o := operators()[n.Domain][n.Op]
	switch {
	case o == nil:
		return nil, module.Operators(Facts).Of(n.Domain, n.Op)
	case !o.Fit(len(n.In), func(slot int) bool { return b.in(n, slot) != onnxload.NoValue }):
		return nil, &o.Facts
	}
	return o, &o.Facts
}

// matchPatterns has the patterns take the nodes that one call was exported as, in the patterns' order.
func (b *recovery) matchPatterns() {
	of := map[string][]int{} // nodes that patterns begin with, by operator
	for _, p := range patterns {
		of[p.anchor] = nil
	}
	for i, n := range b.nodes {
		if list, ok := of[n.Op]; ok && n.Domain == "" && b.rows[i] != nil && b.rows[i].results(n) {
			of[n.Op] = append(list, i)
		}
	}
	for _, p := range patterns {
		for _, i := range of[p.anchor] {
			if b.at = i; !b.done[i] {
				p.match(b, i)
			}
		}
	}
}

// node emits the calls of a node. One without a row still makes its outputs, so that the graph goes on, and is counted.
func (b *recovery) node(n *onnxload.Node, row *operator) {
	switch {
	case row == nil:
		b.opaque(n)
	case row.emit == nil || !row.results(n):
		b.opaque(n)
	default:
		row.emit(b, n)
	}
}

// results reports whether a node keeps what the rules of its operator begin with: its first result.
func (o *operator) results(n *onnxload.Node) bool {
	return n.Output(0) != onnxload.NoValue || o.Has(module.LaterAlone) && n.Output(1) != onnxload.NoValue
}

// opaque emits a node of which no more is known than its arguments and results.
func (b *recovery) opaque(n *onnxload.Node) {
	b.unknown[int32(b.at)] = b.nodeName()
	var in []program.ValueID
	for i := range n.In {
		if id := b.in(n, i); b.isTensor(id) {
			in = append(in, b.value(id))
		}
	}
	for _, id := range b.captured(n) {
		if b.isParameter(id) {
			in = append(in, b.value(id))
		}
	}
	var outs []onnxload.ValueID
	for _, o := range n.Out {
		if b.isTensor(o) && b.of[o] == program.NoValue && (b.sized(o) || b.isRead(o)) {
			outs = append(outs, o)
		}
	}
	b.call("opaque", program.Args{}, in, outs...)
}

// captured returns the values that the graph of a loop reads, of whatever graph they are.
func (b *recovery) captured(n *onnxload.Node) (ids []onnxload.ValueID) {
	body := b.types.Body(n)
	if body == nil {
		return nil
	}
	add := func(list []onnxload.ValueID) {
		for _, id := range list {
			if id = b.id(id); id != onnxload.NoValue {
				ids = append(ids, id)
			}
		}
	}
	for i := range body.Nodes {
		add(body.Nodes[i].In)
	}
	add(body.Outputs)
	return ids
}

// sized reports whether a value is a tensor whose sizes are all known.
func (b *recovery) sized(id onnxload.ValueID) bool {
	id = b.id(id)
	s := b.types.Type(id).Shape
	if !b.isTensor(id) || !s.Ranked {
		return false
	}
	for _, d := range s.Dims {
		if _, known := b.settled(d); !known {
			return false
		}
	}
	return true
}

// countUnknown counts the nodes that no rule places and whose results are read.
func (b *recovery) countUnknown() {
	if len(b.unknown) == 0 {
		return
	}
	for i := range b.prog.Calls {
		node := b.prog.Calls[i].Origin
		if name, ok := b.unknown[node]; ok {
			b.prog.Unknown[name]++
			delete(b.unknown, node)
		}
	}
}

// isRead reports whether a node or the caller gets a value.
func (b *recovery) isRead(id onnxload.ValueID) bool {
	id = b.id(id)
	return len(b.usesOf(id)) > 0 || b.out[id]
}

// isTensor reports whether a value is a tensor, no sequence or optional.
func (b *recovery) isTensor(id onnxload.ValueID) bool {
	return b.types.Type(id).Kind == onnxload.TensorType
}

// nodeName names the operator of the node at hand, with its domain unless that is ONNX's own.
func (b *recovery) nodeName() string {
	n := b.nodes[b.at]
	if n.Domain != "" {
		return n.Domain + "::" + n.Op
	}
	return n.Op
}

func (b *recovery) values(n *onnxload.Node) []program.ValueID {
	in := make([]program.ValueID, len(n.In))
	for i := range n.In {
		in[i] = b.value(b.in(n, i))
	}
	return in
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
