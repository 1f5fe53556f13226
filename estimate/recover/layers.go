package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitPRelu is prelu, which itself views one slope a channel as [C, 1, ...]. Before opset 7 ONNX had the slopes as
// they are.
func emitPRelu(b *recovery, n *onnxload.Node) {
	in := b.values(n)
	x, w := b.dims(b.in(n, 0)), b.dims(b.in(n, 1))
	if n.Version < 7 && len(x) > 2 && len(w) == 1 && w[0] == x[1] {
		view := make([]int64, len(x)-1)
		for i := range view {
			view[i] = 1
		}
		view[0] = w[0]
		in[1] = b.temp("reshape", program.Args{Shape: view}, b.elem(b.in(n, 1)), view, in[1])
	}
	b.call("prelu", program.Args{}, in, n.Output(0))
}

// emitDropout is native_dropout; the exports that keep it set training_mode.
func emitDropout(b *recovery, n *onnxload.Node) {
	p := 0.5
	if x, ok := b.number(b.in(n, 1)); ok {
		p = x
	} else if a := n.Attr("ratio"); a != nil {
		p = float64(a.Float)
	}
	b.call("dropout", program.Args{P: p, Train: b.src.Train}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

func emitSoftmax(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		b.call(op, program.Args{}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
	}
}

// emitGemm is linear when the weight is a parameter, else addmm.
func emitGemm(b *recovery, n *onnxload.Node) {
	x, w, bias := b.in(n, 0), b.in(n, 1), b.in(n, 2)
	if len(b.dims(x)) != 2 || len(b.dims(w)) != 2 { // no shape followed from them, one was declared
		b.opaque(n)
		return
	}
	transB := n.Attr("transB") != nil && n.Attr("transB").Int != 0
	transA := n.Attr("transA") != nil && n.Attr("transA").Int != 0
	in := []program.ValueID{b.value(x), program.NoValue, b.value(bias)}
	switch {
	case b.isParameter(w) && !transA && transB:
		in[1] = b.value(w)
		b.call("linear", program.Args{}, in, n.Output(0))
		return
	case transB:
		d := b.dims(w)
		in[1] = b.temp("permute", program.Args{Dims: []int{1, 0}}, b.elem(w), []int64{d[1], d[0]}, b.value(w))
	default:
		in[1] = b.value(w)
	}
	if transA {
		d := b.dims(x)
		in[0] = b.temp("permute", program.Args{Dims: []int{1, 0}}, b.elem(x), []int64{d[1], d[0]}, in[0])
	}
	if in[2] == program.NoValue {
		b.call("matmul", program.Args{}, in[:2], n.Output(0))
		return
	}
	b.call("addmm", program.Args{}, []program.ValueID{in[2], in[0], in[1]}, n.Output(0))
}

// emitConv returns the rule of a convolution; mode is Args.Mode.
func emitConv(op, mode string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) { b.conv(n, op, mode) }
}

func (b *recovery) conv(n *onnxload.Node, op, mode string) {
	args := program.Args{
		Shape: b.dims(n.Output(0)), Groups: attrInt(n, "group", 1), Stride: attrInts(n, "strides"),
		Pad: attrInts(n, "pads"), Dilate: attrInts(n, "dilations"), Mode: mode,
	}
	in := []program.ValueID{b.value(b.in(n, 0)), b.value(b.in(n, 1)), program.NoValue}
	if padded := b.paddedBefore(n, args.Pad); padded != nil && mode == "" {
		in[0] = b.padded(b.in(n, 0), padded)
		args.Pad = make([]int64, len(args.Pad))
	}
	if b.isFolded(n) {
		b.emitFolded(n, op, args, in)
		return
	}
	if bias := b.in(n, 2); bias != onnxload.NoValue && !b.zeroBias(bias) {
		in[2] = b.value(bias)
	}
	b.call(op, args, in, n.Output(0))
}

// paddedBefore returns the shape to which a convolution's input was padded beforehand: PyTorch's convolutions pad
// both sides alike, so one that does not is F.pad and a convolution, which an optimizer has joined. Models that came
// from TensorFlow pad so. nil for all others.
func (b *recovery) paddedBefore(n *onnxload.Node, pads []int64) []int64 {
	in := b.dims(b.in(n, 0))
	k := len(pads) / 2
	if len(in) != k+2 || slices.Equal(pads[:k], pads[k:]) {
		return nil
	}
	out := slices.Clone(in)
	for i := range k {
		if pads[i] < 0 || pads[k+i] < 0 || pads[i]+pads[k+i] > 1<<16 {
			return nil
		}
		out[2+i] += pads[i] + pads[k+i]
	}
	return out
}

// padded returns a value with zeros around it: the result of a Pad that something else reads too, else a new one.
func (b *recovery) padded(x onnxload.ValueID, shape []int64) program.ValueID {
	for _, u := range b.usesOf(b.id(x)) {
		if n := b.nodes[u]; n.Op == "Pad" && b.of[n.Output(0)] != program.NoValue && slices.Equal(b.dims(n.Output(0)), shape) {
			return b.of[n.Output(0)]
		}
	}
	return b.temp("constant_pad", program.Args{Shape: shape}, b.elem(x), shape, b.value(x))
}

// zeroBias reports whether a convolution's bias is the zero that exporters put where
// the module has none.
func (b *recovery) zeroBias(id onnxload.ValueID) bool {
	return !b.isParameter(id) && b.m.Values[b.id(id)].Init == nil
}

func emitBatchNorm(b *recovery, n *onnxload.Node) {
	in := b.affine(n)
	for _, i := range []int{3, 4} {
		if i < len(in) {
			b.value(b.in(n, i)) // the running statistics belong to the module
		}
	}
	if len(in) < 3 {
		b.opaque(n)
		return
	}
	b.call("batch_norm", program.Args{Train: b.src.Train}, in[:3], n.Output(0))
}

// affine returns a norm's arguments. ONNX wants a scale and mostly a bias; exporters write ones and zeros for a
// module that has none (torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py, batch_norm, instance_norm),
// which PyTorch does not have.
func (b *recovery) affine(n *onnxload.Node) []program.ValueID {
	in := b.values(n)
	for _, v := range in[min(1, len(in)):min(3, len(in))] {
		if v != program.NoValue && b.prog.Values[v].Kind != program.Number {
			return in
		}
	}
	for i := 1; i < min(3, len(in)); i++ {
		in[i] = program.NoValue
	}
	return in
}

func emitInstanceNorm(b *recovery, n *onnxload.Node) {
	b.call("instance_norm", program.Args{}, b.affine(n), n.Output(0))
}

func emitLayerNorm(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		d := b.dims(b.in(n, 0))
		a := b.axis(n, -1, len(d))
		b.call(op, program.Args{Shape: d[a:]}, b.affine(n), n.Output(0))
	}
}

// emitGroupNorm is group_norm, whose weight and bias have an element a channel, as since opset 21. Those of opset 18 to
// 20 have one a group, which PyTorch's do not: there is no such module, and its scale and shift are computed apart,
// on groups, as the operator's own function body does (onnx/defs/nn/old.cc).
func emitGroupNorm(b *recovery, n *onnxload.Node) {
	groups, in, shape := attrInt(n, "num_groups", 1), b.affine(n), b.dims(b.in(n, 0))
	args := program.Args{Groups: groups}
	channels := []int64{shape[1]}
	if !slices.ContainsFunc([]int{1, 2}, func(i int) bool {
		return in[i] != program.NoValue && !slices.Equal(b.dims(b.in(n, i)), channels)
	}) {
		b.call("group_norm", args, in, n.Output(0))
		return
	}
	d := b.elem(n.Output(0))
	y := b.temp("group_norm", args, d, shape, in[0], program.NoValue, program.NoValue)
	split, one := []int64{shape[0], groups, program.Numel(shape[1:]) / groups}, []int64{groups, 1}
	y = b.temp("reshape", program.Args{Shape: split}, d, split, y)
	grouped := func(v program.ValueID) program.ValueID { return b.temp("reshape", program.Args{Shape: one}, d, one, v) }
	if scale := in[1]; scale != program.NoValue {
		y = b.temp("mul", program.Args{}, d, split, y, grouped(scale))
	}
	if shift := in[2]; shift != program.NoValue {
		y = b.temp("add", program.Args{}, d, split, y, grouped(shift))
	}
	b.call("reshape", program.Args{Shape: shape}, []program.ValueID{y}, n.Output(0))
}

func spatialCall(op string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		var in []program.ValueID
		for slot := range program.Of(op).Least { // what else the node has are sizes and scales
			in = append(in, b.value(b.in(n, slot)))
		}
		outs := []onnxload.ValueID{n.Output(0)}
		if places := b.pooled[n]; places != onnxload.NoValue {
			outs = append(outs, places)
		}
		b.call(op, program.Args{Shape: b.dims(n.Output(0)), Kernel: attrInts(n, "kernel_shape"), Stride: attrInts(n, "strides")},
			in, outs...)
	}
}

func emitEinsum(b *recovery, n *onnxload.Node) {
	eq := ""
	if a := n.Attr("equation"); a != nil {
		eq = a.Str
	}
	b.call("einsum", program.Args{Mode: eq, Shape: b.dims(n.Output(0))}, b.values(n), n.Output(0))
}

// emitAttention is scaled_dot_product_attention of [B, H, L, D]; in three dimensions the heads are taken apart first.
func emitAttention(b *recovery, n *onnxload.Node) {
	args := program.Args{Causal: attrInt(n, "is_causal", 0) != 0, Train: b.src.Train}
	in := make([]program.ValueID, 4)
	for i := range in {
		in[i] = b.value(b.in(n, i))
	}
	out := b.dims(n.Output(0))
	if len(out) == 4 {
		b.withPast(n, in)
		b.call("sdpa", args, in, n.Output(0))
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
		v := b.temp("reshape", program.Args{Shape: split}, b.elem(b.in(n, i)), split, in[i])
		in[i] = b.temp("permute", program.Args{Dims: []int{0, 2, 1, 3}}, b.elem(b.in(n, i)),
			[]int64{d[0], heads[i], d[1], d[2] / heads[i]}, v)
	}
	b.withPast(n, in)
	vd := b.prog.Values[in[2]].Shape[3]
	elem := b.elem(n.Output(0))
	y := b.temp("sdpa", args, elem, []int64{out[0], heads[0], out[1], vd}, in...)
	y = b.temp("permute", program.Args{Dims: []int{0, 2, 1, 3}}, elem, []int64{out[0], out[1], heads[0], vd}, y)
	b.call("reshape", program.Args{Shape: out}, []program.ValueID{y}, n.Output(0))
	b.rest(n, 1)
}

// withPast puts the keys and values of earlier tokens, which an Attention node may be given, before those at hand; both
// are results of the node.
func (b *recovery) withPast(n *onnxload.Node, in []program.ValueID) {
	for i := 1; i <= 2; i++ {
		past := b.in(n, 3+i)
		if past == onnxload.NoValue || in[i] == program.NoValue {
			continue
		}
		v := b.prog.Values[in[i]]
		before := b.dims(past)
		if len(before) != 4 || len(v.Shape) != 4 {
			continue
		}
		shape := slices.Clone(v.Shape)
		shape[2] += before[2]
		in[i] = b.temp("cat", program.Args{Dim: 2}, v.DType, shape, b.device(b.value(past), past), in[i])
		if i < len(n.Out) && n.Out[i] != onnxload.NoValue {
			b.of[n.Out[i]] = in[i]
		}
	}
}
