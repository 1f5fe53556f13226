package recover

import (
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// contribDomain is that of ONNX Runtime's operators (docs/ContribOperators.md of microsoft/onnxruntime).
const contribDomain = "com.microsoft"

// contribRows are the operators into which ONNX Runtime's optimizer fuses several. They are taken apart again, into the
// calls that PyTorch makes for the same.
var contribRows = []nodeRow{
	{"Gelu", "data", 0, unaryCall("gelu")},
	{"FastGelu", "data weight?", 0, emitBiasGelu},
	{"BiasGelu", "data weight", 0, emitBiasGelu},
	{"QuickGelu", "data", 0, emitQuickGelu},
	{"SkipLayerNormalization", "data data weight weight? weight?", 0, emitSkipNorm("layer_norm")},
	{"SkipSimplifiedLayerNormalization", "data data weight weight?", 0, emitSkipNorm("rms_norm")},
	{"SimplifiedLayerNormalization", "data weight", 0, emitLayerNorm("rms_norm")},
	{"EmbedLayerNormalization", "data data? weight weight weight? weight weight data? data?", 0, emitEmbedNorm},
	{"Attention", "data weight weight? data? data? data? data?", 0, emitPackedAttention},
	{"MultiHeadAttention", "data data? data? data? data? data? data? data? data? data?", 0, emitMultiHead},
	{"GroupQueryAttention", "data data? data? data? data? data data data? data? data? data? data? data? data?", 0,
		emitGrouped},
	{"FusedMatMul", "weight weight", 0, emitFusedMatMul},
	{"FusedGemm", "weight weight weight?", 0, withActivation(emitGemm)},
	{"FusedConv", "data weight weight? data?", 0, withActivation(emitConv("conv", ""))},
	{"RotaryEmbedding", "data data data data", 0, emitRotary},
	{"MatMulNBits", "data weight buffer buffer? buffer? weight?", module.Quantized, emitQuantizedMatMul},
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

// emitEmbedNorm is layer_norm(words[ids] + positions[:length] + segments[types]).
func emitEmbedNorm(b *recovery, n *onnxload.Node) {
	shape, d := b.dims(n.Output(0)), b.elem(n.Output(0))
	if len(shape) != 3 || b.in(n, 2) == onnxload.NoValue || b.in(n, 3) == onnxload.NoValue {
		b.opaque(n)
		return
	}
	ids := b.value(b.in(n, 0))
	sum := b.temp("embedding", program.Args{}, d, shape, b.value(b.in(n, 2)), ids)
	places := b.temp("fill", program.Args{DType: program.Int64, Shape: shape[:2]}, program.Int64, shape[:2])
	position := b.temp("embedding", program.Args{}, d, shape, b.value(b.in(n, 3)), places)
	sum = b.temp("add", program.Args{}, d, shape, sum, position)
	if table, types := b.in(n, 4), b.in(n, 1); table != onnxload.NoValue && types != onnxload.NoValue {
		segment := b.temp("embedding", program.Args{}, d, shape, b.value(table), b.value(types))
		sum = b.temp("add", program.Args{}, d, shape, sum, segment)
	}
	for k, o := range n.Out {
		switch {
		case k == 1 && o != onnxload.NoValue:
			b.call("fill", program.Args{DType: b.elem(o), Shape: b.dims(o)}, nil, o)
		case k == 2 && o != onnxload.NoValue:
			b.of[o] = sum
		}
	}
	b.call("layer_norm", program.Args{Shape: shape[2:]}, []program.ValueID{sum, b.value(b.in(n, 5)), b.value(b.in(n, 6))},
		n.Output(0))
}

// emitPackedAttention is self-attention with its input projection: [B, L, D] times a weight of [D, 3 * heads * size].
func emitPackedAttention(b *recovery, n *onnxload.Node) {
	x, w, out := b.in(n, 0), b.in(n, 1), n.Output(0)
	d, heads := b.elem(out), attrInt(n, "num_heads", 0)
	in, y, weight := b.dims(x), b.dims(out), b.dims(w)
	if len(in) != 3 || len(y) != 3 || len(weight) != 2 || heads <= 0 || y[2]%heads != 0 || weight[1] != 3*y[2] ||
		b.in(n, 4) != onnxload.NoValue {
		b.opaque(n)
		return
	}
	wide := []int64{in[0], in[1], weight[1]}
	packed := b.temp("matmul", program.Args{}, d, wide, b.value(x), b.value(w))
	if bias := b.in(n, 2); bias != onnxload.NoValue {
		packed = b.temp("add", program.Args{}, d, wide, packed, b.value(bias))
	}
	parts := program.Call{Op: "split", In: []program.ValueID{packed},
		Args: &program.Args{Dim: 2, Shape: []int64{y[2], y[2], y[2]}}, Layer: b.layer(b.at), Scope: b.scopeOf(b.at)}
	for range 3 {
		parts.Out = append(parts.Out, b.add(program.Value{DType: d, Shape: y}))
	}
	b.push(parts)
	args := program.Args{Causal: attrInt(n, "unidirectional", 0) != 0, Train: b.src.Train}
	b.attend(n, args, parts.Out, []int64{heads, heads, heads}, program.NoValue)
	b.rest(n, 1)
}

// emitMultiHead is attention with a bias for query, key and value.
func emitMultiHead(b *recovery, n *onnxload.Node) {
	b.heads(n, b.in(n, 3), b.in(n, 6), attrInt(n, "unidirectional", 0) != 0)
}

// emitGrouped is causal attention to fewer keys and values than there are queries.
func emitGrouped(b *recovery, n *onnxload.Node) {
	b.heads(n, onnxload.NoValue, b.in(n, 3), true)
}

// heads is attention of query, key and value of [B, L, heads * size] each, with the keys and values of earlier
// tokens before them where the graph is given those.
func (b *recovery) heads(n *onnxload.Node, bias, past onnxload.ValueID, causal bool) {
	heads := attrInt(n, "num_heads", 0)
	few := attrInt(n, "kv_num_heads", heads)
	var in []program.ValueID
	for i := range 3 {
		id := b.in(n, i)
		if id == onnxload.NoValue || len(b.dims(id)) != 3 || b.dims(id)[2]%max(1, []int64{heads, few, few}[i]) != 0 {
			b.opaque(n) // packed, or kept from before
			return
		}
		in = append(in, b.value(id))
	}
	y := b.dims(n.Output(0))
	if heads <= 0 || few <= 0 || len(y) != 3 || b.dims(b.in(n, 0))[2] != y[2] || past != onnxload.NoValue &&
		program.Numel(b.dims(past)) > 0 {
		b.opaque(n)
		return
	}
	if bias != onnxload.NoValue && len(b.dims(bias)) != 1 {
		b.opaque(n) // it is a vector
		return
	}
	if bias != onnxload.NoValue { // one vector for the three, of which each takes a part
		for i, v := range in {
			shape := b.prog.Values[v].Shape
			part := b.temp("slice", program.Args{Dims: []int{0}, Shape: shape[2:]}, b.elem(bias), shape[2:], b.value(bias))
			in[i] = b.temp("add", program.Args{}, b.elem(n.Output(0)), shape, v, part)
		}
	}
	b.attend(n, program.Args{Causal: causal, Train: b.src.Train}, in, []int64{heads, few, few}, program.NoValue)
	b.rest(n, 1)
}

// attend takes the heads of query, key and value of [B, L, heads * size] apart, calls scaled_dot_product_attention
// and puts them together again as the node's first result.
func (b *recovery) attend(n *onnxload.Node, args program.Args, in []program.ValueID, heads []int64, mask program.ValueID) {
	split := make([]program.ValueID, 3)
	for i, v := range in {
		x := b.prog.Values[v]
		s := []int64{x.Shape[0], x.Shape[1], heads[i], x.Shape[2] / heads[i]}
		t := b.temp("reshape", program.Args{Shape: s}, x.DType, s, v)
		split[i] = b.temp("permute", program.Args{Dims: []int{0, 2, 1, 3}}, x.DType, []int64{s[0], s[2], s[1], s[3]}, t)
	}
	out, d := b.dims(n.Output(0)), b.elem(n.Output(0))
	if len(out) != 3 || out[2]%heads[0] != 0 {
		b.opaque(n)
		return
	}
	size := out[2] / heads[0]
	y := b.temp("sdpa", args, d, []int64{out[0], heads[0], out[1], size}, append(split, mask)...)
	y = b.temp("permute", program.Args{Dims: []int{0, 2, 1, 3}}, d, []int64{out[0], out[1], heads[0], size}, y)
	b.call("reshape", program.Args{Shape: out}, []program.ValueID{y}, n.Output(0))
}

// rest makes the results of a node from this one on: what the next call is given, such as keys and values.
func (b *recovery) rest(n *onnxload.Node, from int) {
	for k := from; k < len(n.Out); k++ {
		if o := n.Out[k]; o != onnxload.NoValue && b.of[o] == program.NoValue {
			b.call("fill", program.Args{DType: b.elem(o), Shape: b.dims(o)}, nil, o)
		}
	}
}

// emitFusedMatMul is a product of arguments that are turned first: transBatchA and transBatchB move the first dimension
// behind the other batch dimensions, transA and transB swap the last two.
func emitFusedMatMul(b *recovery, n *onnxload.Node) {
	in := make([]program.ValueID, 2)
	for i, arg := range []string{"A", "B"} {
		id := b.in(n, i)
		in[i] = b.value(id)
		s := b.dims(id)
		k := len(s)
		if k < 2 {
			continue
		}
		perm := make([]int, k)
		for j := range perm {
			perm[j] = j
		}
		if attrInt(n, "transBatch"+arg, 0) != 0 {
			perm = append(append(perm[1:k-1:k-1], 0), k-1)
		}
		if attrInt(n, "trans"+arg, 0) != 0 {
			perm[k-2], perm[k-1] = perm[k-1], perm[k-2]
		}
		if slices.IsSorted(perm) {
			continue
		}
		shape := make([]int64, k)
		for j, from := range perm {
			shape[j] = s[from]
		}
		in[i] = b.temp("permute", program.Args{Dims: perm}, b.elem(id), shape, in[i])
	}
	b.call("matmul", program.Args{}, in, n.Output(0))
}

// withActivation emits a node and the activation that its attribute names.
func withActivation(emit func(*recovery, *onnxload.Node)) func(*recovery, *onnxload.Node) {
	ops := map[string]string{"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "LeakyRelu": "leaky_relu",
		"Clip": "hardtanh", "HardSigmoid": "hardsigmoid", "Gelu": "gelu"}
	return func(b *recovery, n *onnxload.Node) {
		emit(b, n)
		a := n.Attr("activation")
		if a == nil || ops[a.Str] == "" {
			return
		}
		y := b.of[b.id(n.Output(0))]
		b.call(ops[a.Str], program.Args{}, []program.ValueID{y}, n.Output(0))
	}
}

// emitRotary is x * cos + rotate_half(x) * sin, with the tables looked up and doubled before.
func emitRotary(b *recovery, n *onnxload.Node) {
	x := b.in(n, 0)
	shape, d := b.dims(n.Output(0)), b.elem(n.Output(0))
	rank := len(shape)
	if rank < 2 {
		b.opaque(n)
		return
	}
	last := rank - 1
	if shape[last]%2 != 0 {
		b.opaque(n)
		return
	}
	v := b.value(x)
	half := append(append([]int64{}, shape[:last]...), shape[last]/2)
	tables := make([]program.ValueID, 2)
	for i := range tables {
		tables[i] = b.temp("fill", program.Args{DType: d, Shape: shape[1:]}, d, shape[1:])
	}
	slice := func() program.ValueID {
		return b.temp("slice", program.Args{Dims: []int{last}, Shape: half[last:]}, d, half, v)
	}
	straight := b.temp("mul", program.Args{}, d, shape, v, tables[0])
	first, second := slice(), slice()
	second = b.temp("neg", program.Args{}, d, half, second)
	turned := b.temp("cat", program.Args{Dim: last}, d, shape, second, first)
	turned = b.temp("mul", program.Args{}, d, shape, turned, tables[1])
	b.call("add", program.Args{}, []program.ValueID{straight, turned}, n.Output(0))
	b.approximate(n, "its tables are taken to be shared by all samples")
}

// emitQuantizedMatMul is a product with a weight that is unpacked to the input's type first.
func emitQuantizedMatMul(b *recovery, n *onnxload.Node) {
	k, cols := attrInt(n, "K", 0), attrInt(n, "N", 0)
	if k <= 0 || cols <= 0 || b.in(n, 1) == onnxload.NoValue {
		b.opaque(n)
		return
	}
	for i := 1; i < len(n.In); i++ {
		b.value(b.in(n, i)) // packed weights and scales are on the GPU
	}
	d := b.elem(n.Output(0))
	w := b.temp("fill", program.Args{DType: d, Shape: []int64{k, cols}}, d, []int64{k, cols})
	b.call("matmul", program.Args{}, []program.ValueID{b.value(b.in(n, 0)), w}, n.Output(0))
	b.approximate(n, "its weight is taken to be unpacked for each product")
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
	if b.said == nil {
		b.said = map[string]bool{}
	}
	if !b.said[n.Op] {
		b.said[n.Op] = true
		b.prog.Notes = append(b.prog.Notes, fmt.Sprintf("operator %q is approximate: %s", n.Op, how))
	}
}
