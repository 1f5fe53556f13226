package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchLayerNorm finds the layer norm that opsets before 17 write as
//
//	d = x - mean(x); d / sqrt(mean(d*d) + eps) [* weight + bias]
//
// over the last dimensions, with weight and bias parameters. PyTorch's exporters write LayerNormalization from opset 17
// on (layer_norm in symbolic_opset17.py), so that these steps in a later file of theirs are a program's own. An eps of
// 1e-8 or less is no node in a default export: onnxscript's optimizer takes what is within 1e-8 of zero for it (add_0
// in rewriter/rules/common/_no_op.py).
func matchLayerNorm(b *recovery, i int) {
	mean := b.nodes[i]
	x := b.in(mean, 0)
	sub, si := b.user(mean.Output(0), "Sub")
	if sub == nil || b.in(sub, 0) != x || b.in(sub, 1) != b.id(mean.Output(0)) {
		return
	}
	var pow, div *onnxload.Node
	var pi, di int
	d := b.id(sub.Output(0))
	if d == onnxload.NoValue {
		return
	}
	for _, u := range b.usesOf(d) {
		switch n := b.nodes[u]; n.Op {
		case "Pow", "Mul":
			if !b.done[u] && (n.Op == "Mul" && b.in(n, 0) == d && b.in(n, 1) == d || n.Op == "Pow" &&
				b.isNumber(b.in(n, 1), 2)) {
				pow, pi = n, int(u)
			}
		case "Div":
			if !b.done[u] && b.in(n, 0) == d {
				div, di = n, int(u)
			}
		}
	}
	if pow == nil || div == nil {
		return
	}
	variance, vi := b.user(pow.Output(0), "ReduceMean")
	if variance == nil {
		return
	}
	root, ri := b.user(variance.Output(0), "Sqrt")
	ai := ri
	if root == nil {
		var add *onnxload.Node
		if add, ai = b.user(variance.Output(0), "Add"); add == nil {
			return
		}
		if _, ok := b.number(b.other(add, variance.Output(0))); !ok {
			return
		}
		root, ri = b.user(add.Output(0), "Sqrt")
	}
	if root == nil || b.in(div, 1) != b.id(root.Output(0)) {
		return
	}
	members := []int{i, si, pi, vi, ai, ri, di}
	last := div.Output(0)
	params := []onnxload.ValueID{onnxload.NoValue, onnxload.NoValue}
	for k, op := range []string{"Mul", "Add"} {
		n, ni := b.user(last, op)
		if n == nil || !b.isParameter(b.other(n, last)) {
			break
		}
		params[k], last = b.other(n, last), n.Output(0)
		members = append(members, ni)
	}
	shape, small := b.dims(x), b.dims(mean.Output(0))
	from := 0
	for from < len(shape) && from < len(small) && small[from] == shape[from] {
		from++
	}
	if from == len(shape) {
		from = len(shape) - 1
	}
	own := ai == ri || b.byPyTorch() && mean.Version >= 17
	if own || len(small) == len(shape) && from >= 0 && program.Numel(small[from:]) != 1 {
		if pow.Op == "Pow" && b.guess(mergedCalls) { // the channels of a picture: LayerNorm2d by hand
			b.splitDifference(sub, div, di)
		}
		return
	}
	b.claim(func() {
		b.call("layer_norm", program.Args{Shape: shape[from:]}, []program.ValueID{b.value(x), b.value(params[0]),
			b.value(params[1])}, last)
	}, members...)
}

// splitDifference makes the quotient of a norm by hand take a difference of its own. Where a norm is over the
// channels of a picture, (x - u).pow(2).mean(1, keepdim=True) and (x - u) / torch.sqrt(s + eps) are two lines
// (ConvNextLayerNorm in transformers, LayerNormFunction of NAFNet, LayerNorm2d of segment-anything), whose equal
// differences the exporter's _jit_pass_cse merges (torch/onnx/utils.py). A program that names the difference
// multiplies it by itself.
func (b *recovery) splitDifference(sub, div *onnxload.Node, di int) {
	d := sub.Output(0)
	b.claim(func() {
		again := b.temp("sub", program.Args{}, b.elem(d), b.dims(d), b.value(b.in(sub, 0)), b.value(b.in(sub, 1)))
		b.call("div", program.Args{}, []program.ValueID{again, b.value(b.in(div, 1))}, div.Output(0))
	}, di)
}

// inverseRoot follows a mean of squares to 1 / sqrt(mean + eps) or (mean + eps) ** -0.5, and returns that with the
// nodes that make it; NoValue where it goes elsewhere.
func (b *recovery) inverseRoot(mean *onnxload.Node) (r onnxload.ValueID, members []int) {
	add, ai := b.user(mean.Output(0), "Add")
	if add == nil {
		return onnxload.NoValue, nil
	}
	if _, ok := b.number(b.other(add, mean.Output(0))); !ok {
		return onnxload.NoValue, nil
	}
	if pow, pi := b.user(add.Output(0), "Pow"); pow != nil && b.isNumber(b.in(pow, 1), -0.5) {
		return pow.Output(0), []int{ai, pi}
	}
	root, si := b.user(add.Output(0), "Sqrt")
	if root == nil {
		return onnxload.NoValue, nil
	}
	r, ri := b.reciprocalOf(root.Output(0))
	return r, []int{ai, si, ri}
}

// matchRMSNorm finds the root mean square norm that language models write by hand:
//
//	weight * (x * rsqrt(x.pow(2).mean(-1) + eps))         Llama, T5
//	(x * rsqrt(x.pow(2).mean(-1) + eps)) * (1 + weight)   Gemma
//
// Both compute in float32, so in 16 bits the input is cast, and the result cast back: Llama's before it meets the
// weight, Gemma's after (LlamaRMSNorm and GemmaRMSNorm in transformers). A float32 graph that torch.export wrote
// does not show these casts but by its lines; the TorchScript exporter keeps them as nodes. T5 casts
// for the variance alone and multiplies the input itself; that its cast back depends on the weight's type leaves no
// node behind. Where the norm comes before its weight a program wrote it by itself, which casts only where the graph
// says so: a name keeps that of type_as.
func matchRMSNorm(b *recovery, i int) {
	mean := b.nodes[i]
	pow, pi := b.producedBy(b.in(mean, 0), "Pow")
	if pow == nil || !b.isNumber(b.in(pow, 1), 2) || !b.single(pow.Output(0)) {
		return
	}
	x := b.in(pow, 0)
	r, inverse := b.inverseRoot(mean)
	if r == onnxload.NoValue {
		return
	}
	norm, ni := b.user(r, "Mul")
	if norm == nil || b.id(b.other(norm, r)) != x {
		return
	}
	members := append([]int{i, pi, ni}, inverse...)
	cast, ci := b.upcast(x)
	if cast != nil && len(b.usesOf(x)) == 2 && !b.out[x] {
		x, members = b.in(cast, 0), append(members, ci)
	}
	normed := norm.Output(0)
	back, bi := b.user(normed, "Cast")
	if back != nil && b.elem(back.Output(0)) == program.Float32 {
		normed, members = back.Output(0), append(members, bi)
	}
	scale, ki := b.user(normed, "Mul")
	if scale == nil || back == nil && !b.isScale(b.other(scale, normed)) {
		return
	}
	members = append(members, ki)
	w := b.other(scale, normed)
	shifted := false // the weight of Gemma is a difference from one
	if one, oi := b.producedBy(w, "Add"); one != nil && b.single(w) {
		if p, k := b.otherThanNumber(one); k == 1 {
			w, shifted, members = p, true, append(members, oi)
		}
	}
	out := scale.Output(0)
	if !b.isParameter(w) || !shifted && b.in(scale, 0) != b.id(w) && back == nil &&
		!strings.HasPrefix(b.m.NameOf(norm.Output(0)), "type_as") {
		return
	}
	if !b.guess(floatRMSNorm) {
		return
	}
	b.claim(func() {
		f, shape := program.Float32, b.dims(x)
		v, in := b.normInFloat(x, mean, cast != nil && back == nil)
		weight := b.value(w)
		if shifted {
			d := b.dims(w)
			weight = b.temp("float", program.Args{}, f, d, weight)
			weight = b.temp("add", program.Args{}, f, d, weight, b.add(program.Value{Kind: program.Number, DType: f}))
			v = b.temp("mul", program.Args{}, f, shape, v, weight)
			b.call("type_as", program.Args{}, []program.ValueID{v, in}, out)
			return
		}
		v = b.temp("type_as", program.Args{}, f, shape, v, in)
		b.call("mul", program.Args{}, []program.ValueID{weight, v}, out)
	}, members...)
}

// isScale reports whether a value is a weight of a norm, as it is or with one added.
func (b *recovery) isScale(w onnxload.ValueID) bool {
	if one, _ := b.producedBy(w, "Add"); one != nil {
		w, _ = b.otherThanNumber(one)
	}
	return w != onnxload.NoValue && b.isParameter(w)
}

// normInFloat emits x times the inverse root of the mean of its squares, computed in float32, and returns it and x,
// which it takes for the product as it is where own is set.
func (b *recovery) normInFloat(x onnxload.ValueID, mean *onnxload.Node, own bool) (v, in program.ValueID) {
	f, shape, small := program.Float32, b.dims(x), b.dims(mean.Output(0))
	in = b.value(x)
	wide := b.temp("float", program.Args{}, f, shape, in)
	square := b.temp("square", program.Args{}, f, shape, wide)
	v = b.temp("mean", b.reduction(mean, b.axes(mean)), f, small, square)
	number := b.add(program.Value{Kind: program.Number, DType: f})
	v = b.temp("add", program.Args{}, f, small, v, number)
	v = b.temp("rsqrt", program.Args{}, f, small, v) // or a power, which saves one small tensor more
	if own {
		wide = in
	}
	return b.temp("mul", program.Args{}, f, shape, wide, v), in
}

// matchWeightNorm finds _weight_norm(v, g, dim), which the exporters write as v / norm(v) * g. It is one kernel where
// the norms are of the first or the last dimension (can_use_fused in aten/src/ATen/native/WeightNorm.cpp).
func matchWeightNorm(b *recovery, i int) {
	norm := b.nodes[i]
	v := b.in(norm, 0)
	div, di := b.user(norm.Output(0), "Div")
	if div == nil || !b.isParameter(v) || b.in(div, 0) != v {
		return
	}
	mul, mi := b.user(div.Output(0), "Mul")
	if mul == nil {
		return
	}
	g := b.other(mul, div.Output(0))
	shape, norms := b.dims(v), b.dims(norm.Output(0))
	last := len(shape) - 1
	if !b.isParameter(g) || last < 1 || len(norms) != len(shape) || program.Numel(norms) != norms[0] &&
		program.Numel(norms) != norms[last] || !slices.Equal(b.dims(g), norms) {
		return
	}
	b.claim(func() {
		b.call("weight_norm", program.Args{}, []program.ValueID{b.value(v), b.value(g)}, mul.Output(0))
	}, i, di, mi)
}

// matchGroupNorm finds the group norm that opsets before 21 write as an instance norm of groups:
// reshape to [N, G, -1], instance norm of ones and zeros, reshape back, times the weight, plus the bias.
func matchGroupNorm(b *recovery, i int) {
	norm := b.nodes[i]
	in, ii := b.producedBy(b.in(norm, 0), "Reshape")
	if in == nil {
		return
	}
	if len(b.dims(norm.Output(0))) != 3 {
		return
	}
	x, groups := b.in(in, 0), b.dims(norm.Output(0))[1]
	members, last := []int{ii, i}, norm.Output(0)
	if out, oi := b.user(last, "Reshape"); out != nil {
		members, last = append(members, oi), out.Output(0)
	} else if !slices.Equal(b.dims(x), b.dims(last)) {
		// a group for each channel of a sequence: optimizers drop the way back
		return
	}
	if len(b.dims(last)) < 2 { // a program lays it flat
		return
	}
	params := []onnxload.ValueID{onnxload.NoValue, onnxload.NoValue}
	for k, op := range []string{"Mul", "Add"} {
		n, ni := b.user(last, op)
		if n == nil {
			break
		}
		p := b.parameterBehind(b.other(n, last))
		if p == onnxload.NoValue && k == 1 && strings.HasPrefix(b.m.NameOf(n.Output(0)), "group_norm") {
			last, members = n.Output(0), append(members, ni) // the exporter's zeros, of a norm without bias
			break
		}
		if p == onnxload.NoValue || program.Numel(b.dims(p)) != b.dims(last)[1] {
			break
		}
		params[k], last = p, n.Output(0)
		members = append(members, ni)
	}
	b.claim(func() {
		v, shape := b.value(x), b.dims(last)
		if !slices.Equal(b.dims(x), shape) { // optimizers merge a view before the norm with the norm's own
			v = b.temp("reshape", program.Args{Shape: shape}, b.elem(x), shape, v)
		}
		b.call("group_norm", program.Args{Groups: groups}, []program.ValueID{v, b.vector(params[0]), b.vector(params[1])}, last)
	}, members...)
}
