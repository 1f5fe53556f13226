package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchBilinear finds torch.nn.functional.bilinear by its first product. torch.export's exporter writes two for all
// outputs at once (aten_bilinear of torchlib): x1 with the weight laid out as [in1, out * in2], and that with x2.
func matchBilinear(b *recovery, i int) {
	first := b.nodes[i]
	flat, fi := b.producedBy(b.in(first, 1), "Reshape")
	apart, ai := b.user(first.Output(0), "Reshape")
	if flat == nil || apart == nil {
		return
	}
	second, si := b.user(apart.Output(0), "MatMul")
	if second == nil || b.in(second, 0) != b.id(apart.Output(0)) {
		return
	}
	column, ci := b.producedBy(b.in(second, 1), "Unsqueeze")
	out, oi := b.user(second.Output(0), "Squeeze")
	if column == nil || out == nil {
		return
	}
	members := []int{i, fi, ai, si, ci, oi}
	w, x1, x2 := b.in(flat, 0), b.in(first, 0), b.in(column, 0)
	t, ti := b.producedBy(w, "Transpose")
	if t != nil {
		w, members = b.in(t, 0), append(members, ti)
	}
	shape, in1, in2 := b.dims(out.Output(0)), b.dims(x1), b.dims(x2)
	if k := len(shape) - 1; !b.isParameter(w) || k < 0 || len(in1) != k+1 || len(in2) != k+1 {
		return
	}
	k := len(shape) - 1
	weight := []int64{shape[k], in1[k], in2[k]}
	if len(b.dims(w)) != len(weight) || program.Numel(b.dims(w)) != program.Numel(weight) {
		return
	}
	b.claim(func() {
		v := b.value(w)
		b.prog.Values[v].Shape = weight // which an optimizer turned
		b.call("bilinear", program.Args{Shape: shape}, []program.ValueID{b.value(x1), v, b.value(x2)}, out.Output(0))
	}, members...)
}

// matchCdist finds torch.cdist by its square root. Where one of the tensors has more than 25 points, exporters write
// what PyTorch computes then: a product of points that have their squared norm and a one beside them (_euclidean_dist
// in aten/src/ATen/native/Distance.cpp, cdist in symbolic_opset9.py of torch.onnx).
func matchCdist(b *recovery, i int) {
	root := b.nodes[i]
	least, li := b.producer(b.in(root, 0))
	if least == nil || least.Op != "Clip" && least.Op != "Max" || !b.isNumber(b.in(least, 1), 0) {
		return
	}
	product, pi := b.producedBy(b.in(least, 0), "MatMul")
	if product == nil {
		return
	}
	turned, ti := b.producedBy(b.in(product, 1), "Transpose")
	if turned == nil {
		return
	}
	members := []int{i, li, pi, ti}
	var points [2]onnxload.ValueID
	for side, v := range []onnxload.ValueID{b.in(product, 0), b.in(turned, 0)} {
		joined, ji := b.producedBy(v, "Concat")
		if joined == nil || len(joined.In) != 3 {
			return
		}
		members = append(members, ji)
		x := b.in(joined, 0)
		if side == 0 { // -2 * x1
			twice, mi := b.producedBy(x, "Mul")
			switch {
			case twice == nil:
				return
			case b.isNumber(b.in(twice, 0), -2):
				x = b.in(twice, 1)
			case b.isNumber(b.in(twice, 1), -2):
				x = b.in(twice, 0)
			default:
				return
			}
			members = append(members, mi)
		}
		norm, ni := b.producedBy(b.in(joined, 1+side), "ReduceSum")
		if norm == nil {
			return
		}
		square, qi := b.producedBy(b.in(norm, 0), "Pow")
		if square == nil || b.in(square, 0) != x || !b.isNumber(b.in(square, 1), 2) {
			return
		}
		points[side] = b.unexpanded(x)
		members = append(members, ni, qi)
	}
	b.claim(func() {
		b.call("cdist", program.Args{Shape: b.dims(root.Output(0))}, []program.ValueID{b.value(points[0]), b.value(points[1])},
			root.Output(0))
	}, members...)
}

// unexpanded returns what a value is an expanded view of, through views of the same shape.
func (b *recovery) unexpanded(id onnxload.ValueID) onnxload.ValueID {
	x := id
	for range 2 {
		n, _ := b.producer(x)
		switch {
		case n == nil:
			return x
		case n.Op == "Expand" && len(b.dims(b.in(n, 0))) >= 2,
			n.Op == "Reshape" && slices.Equal(b.dims(b.in(n, 0)), b.dims(x)):
			x = b.in(n, 0)
		default:
			return x
		}
	}
	return x
}

// matchExponential finds Tensor.exponential_, which torch.export takes apart (exponential in torch/_refs), and with it
// torch.nn.functional.gumbel_softmax: what that function keeps while it runs no line of an export says.
func matchExponential(b *recovery, i int) {
	uniform := b.nodes[i].Output(0)
	var log *onnxload.Node
	li, wi := -1, -1
	b.users(uniform, "Log", func(n *onnxload.Node, at int) { log, li = n, at })
	if log == nil || len(b.usesOf(b.id(uniform))) != 2 {
		return
	}
	where, wi := b.user(log.Output(0), "Where")
	if where == nil {
		return
	}
	most, gi := b.producedBy(b.in(where, 0), "GreaterOrEqual")
	scaled, mi := b.user(where.Output(0), "Mul")
	if most == nil || scaled == nil || b.in(most, 0) != b.id(uniform) {
		return
	}
	if _, ok := b.number(b.other(scaled, where.Output(0))); !ok {
		return
	}
	noise := scaled.Output(0)
	members := []int{i, li, gi, wi, mi}
	if b.matchGumbel(noise, members) {
		return
	}
	b.claim(func() { b.call("fill", program.Args{DType: b.elem(noise), Shape: b.dims(noise)}, nil, noise) }, members...)
}

// matchGumbel finds gumbel_softmax behind its noise: softmax((logits - log(noise)) / tau), and where it is hard a one
// for the largest that takes softmax's gradient, y_hard - y_soft.detach() + y_soft.
func (b *recovery) matchGumbel(noise onnxload.ValueID, members []int) bool {
	v := noise
	var logits onnxload.ValueID
	for _, op := range []string{"Log", "Neg", "Add"} {
		n, at := b.user(v, op)
		if n == nil {
			return false
		}
		logits = b.other(n, v)
		v, members = n.Output(0), append(members, at)
	}
	if n, at := b.user(v, "Div"); n != nil { // by tau, which optimizers leave out where it is 1
		v, members = n.Output(0), append(members, at)
	}
	soft, at := b.user(v, "Softmax")
	if soft == nil || !slices.Equal(b.dims(logits), b.dims(v)) {
		return false
	}
	out, members := soft.Output(0), append(members, at)
	args := program.Args{Dim: b.axis(soft, -1, len(b.dims(v)))}
	if hard, nodes := b.straightThrough(out); hard != onnxload.NoValue {
		args.Mode, out, members = "hard", hard, append(members, nodes...)
	}
	b.claim(func() { b.call("gumbel_softmax", args, []program.ValueID{b.value(logits)}, out) }, members...)
	return true
}

// straightThrough returns y_hard - y_soft.detach() + y_soft and its nodes, where that is all that reads y_soft.
func (b *recovery) straightThrough(soft onnxload.ValueID) (out onnxload.ValueID, nodes []int) {
	places, scatter, detached := onnxload.NoValue, onnxload.NoValue, soft
	b.users(soft, "ArgMax", func(n *onnxload.Node, at int) { places, nodes = n.Output(0), append(nodes, at) })
	b.users(soft, "Identity", func(n *onnxload.Node, at int) { detached, nodes = n.Output(0), append(nodes, at) })
	if n, at := b.user(places, "ScatterElements"); n != nil {
		scatter, nodes = n.Output(0), append(nodes, at)
	}
	less, li := b.user(scatter, "Sub")
	if less == nil || b.in(less, 1) != b.id(detached) {
		return onnxload.NoValue, nil
	}
	sum, si := b.user(less.Output(0), "Add")
	if sum == nil || b.other(sum, less.Output(0)) != b.id(soft) || len(b.usesOf(b.id(soft))) != 3 {
		return onnxload.NoValue, nil
	}
	return sum.Output(0), append(nodes, li, si)
}

// matchLogCumSumExp finds torch.logcumsumexp, which torch.export's exporter writes as the logarithm of a cumulated sum,
// with the maximum taken away before and added behind (aten_logcumsumexp in onnxscript's torch_lib): the values between
// have names of its own.
func matchLogCumSumExp(b *recovery, i int) {
	log := b.nodes[i]
	cum, ci := b.producedBy(log.Input(0), "CumSum")
	if cum == nil {
		return
	}
	exp, ei := b.producedBy(cum.Input(0), "Exp")
	if exp == nil {
		return
	}
	sub, si := b.producedBy(exp.Input(0), "Sub")
	add, ai := b.user(log.Output(0), "Add")
	if sub == nil || add == nil {
		return
	}
	top, ti := b.producedBy(sub.Input(1), "ReduceMax")
	if top == nil || b.in(top, 0) != b.in(sub, 0) || b.other(add, log.Output(0)) != b.id(top.Output(0)) ||
		!slices.Equal(b.dims(add.Output(0)), b.dims(b.in(sub, 0))) {
		return
	}
	for _, v := range []onnxload.ValueID{log.Input(0), cum.Input(0), exp.Input(0)} {
		if !b.single(v) || !strings.HasPrefix(b.m.NameOf(v), "val_") {
			return
		}
	}
	if len(b.usesOf(b.id(top.Output(0)))) != 2 {
		return
	}
	b.claim(func() {
		b.call("logcumsumexp", program.Args{}, []program.ValueID{b.value(b.in(sub, 0))}, add.Output(0))
	},
		ti, si, ei, ci, i, ai)
}

// matchLogSigmoid finds F.logsigmoid, which torch.export's exporter writes as the logarithm of a sigmoid whose name is
// its own, that of a function's variable (aten_log_sigmoid in onnxscript's torch_lib). A program's is called sigmoid.
func matchLogSigmoid(b *recovery, i int) {
	log := b.nodes[i]
	sigmoid, si := b.producedBy(log.Input(0), "Sigmoid")
	if sigmoid == nil || !b.single(log.Input(0)) {
		return
	}
	if name := b.m.NameOf(log.Input(0)); !strings.HasPrefix(name, "val_") && !strings.HasPrefix(name, "tmp") {
		return
	}
	b.claim(func() {
		b.call("log_sigmoid", program.Args{}, []program.ValueID{b.value(b.in(sigmoid, 0))}, log.Output(0))
	}, si, i)
}
