package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchVariance finds the variance of a sample, torch.var(x, dim) and torch.std(x, dim), which both exporters write as
//
//	d = x - mean(x); mean(d * d) * n / (n - correction)
//
// with n counted from x's sizes (_var_mean in symbolic_helper.py, aten_var in torchlib's core.py), and std as its root.
// No program by hand counts so.
func matchVariance(b *recovery, i int) {
	div := b.nodes[i]
	mul, mi := b.producedBy(b.in(div, 0), "Mul")
	if mul == nil || !b.single(mul.Output(0)) || !b.isCorrected(b.in(mul, 1), b.in(div, 1)) {
		return
	}
	mean, vi := b.producedBy(b.in(mul, 0), "ReduceMean")
	if mean == nil || !b.single(mean.Output(0)) {
		return
	}
	if x, members := b.deviation(mean, vi); x != onnxload.NoValue {
		b.variance(x, mean, div.Output(0), append(members, i, mi))
	}
}

// matchPopulation finds torch.var(x, dim, unbiased=False), of which exporters write the mean alone. torch.export names
// it so, where a program's own is mean_1; in TorchScript's files nothing else reads the difference that it squares,
// where a program that squares one for itself reads it again.
func matchPopulation(b *recovery, i int) {
	mean := b.nodes[i]
	name := b.m.NameOf(mean.Output(0))
	x, members := b.deviation(mean, i)
	if x == onnxload.NoValue || !strings.HasPrefix(name, "var") && (strings.HasPrefix(name, "mean") || len(members) < 3) {
		return
	}
	b.variance(x, mean, mean.Output(0), members)
}

// deviation returns what a mean is the mean square of, less its own mean, and the nodes of that. The mean and the
// difference stay where something else reads them, (x - mean) / std: the exporter merged the program's own with those.
func (b *recovery) deviation(mean *onnxload.Node, i int) (x onnxload.ValueID, members []int) {
	square, qi := b.producedBy(b.in(mean, 0), "Mul")
	if square == nil || !b.single(square.Output(0)) || b.in(square, 0) != b.in(square, 1) {
		return onnxload.NoValue, nil
	}
	sub, si := b.producedBy(b.in(square, 0), "Sub")
	if sub == nil {
		return onnxload.NoValue, nil
	}
	first, fi := b.producedBy(b.in(sub, 1), "ReduceMean")
	x = b.in(sub, 0)
	if first == nil || b.in(first, 0) != x || program.Numel(b.dims(mean.Output(0))) != program.Numel(b.dims(first.Output(0))) {
		return onnxload.NoValue, nil
	}
	members = []int{i, qi}
	if b.readBy(sub, qi) {
		if members = append(members, si); b.readBy(first, si) {
			members = append(members, fi)
		}
	}
	return x, members
}

// variance claims the nodes of a variance of x that mean reduces, or of its root.
func (b *recovery) variance(x onnxload.ValueID, mean *onnxload.Node, out onnxload.ValueID, members []int) {
	op := "var"
	if root, ri := b.user(out, "Sqrt"); root != nil {
		op, out, members = "std", root.Output(0), append(members, ri)
	}
	args := b.reduction(mean, b.axes(mean))
	b.claim(func() { b.call(op, args, []program.ValueID{b.value(x)}, out) }, members...)
}

// isCorrected reports whether two values are the number of a sample and that less a correction.
func (b *recovery) isCorrected(n, less onnxload.ValueID) bool {
	if sub, _ := b.producer(less); sub != nil && sub.Op == "Sub" && b.in(sub, 0) == b.id(n) {
		_, ok := b.number(b.in(sub, 1))
		return ok
	}
	count, ok := b.number(n)
	return ok && count > 1 && b.isNumber(less, count-1)
}

// readBy reports whether the result of a node is read by one other node alone.
func (b *recovery) readBy(n *onnxload.Node, reader int) bool {
	id := b.id(n.Output(0))
	if id == onnxload.NoValue || b.out[id] {
		return false
	}
	for _, u := range b.usesOf(id) {
		if int(u) != reader {
			return false
		}
	}
	return true
}
