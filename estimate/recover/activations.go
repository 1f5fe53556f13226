package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchElu finds elu(x, alpha, scale, input_scale) as torch.export's exporter writes it, Elu(x * input_scale) *
// scale, with an input scale of 1 (torchlib aten_elu). Optimizers leave out the product with 1: what is between Elu and
// another scale, selu's, has no name of the program's, val_4.
func matchElu(b *recovery, i int) {
	elu := b.nodes[i]
	x, members := b.in(elu, 0), []int{i}
	if in, ii := b.producedBy(x, "Mul"); in != nil && b.single(in.Output(0)) && b.isNumber(b.in(in, 1), 1) {
		x, members = b.in(in, 0), append(members, ii)
	} else if !strings.HasPrefix(b.m.NameOf(elu.Output(0)), "val_") {
		return
	}
	out, oi := b.user(elu.Output(0), "Mul")
	if out == nil || !b.isKnown(b.in(out, 1)) {
		return
	}
	b.claim(func() {
		b.elu(x, elu, out.Output(0))
	}, append(members, oi)...)
}

// emitElu is elu, selu or celu of one node.
func emitElu(b *recovery, n *onnxload.Node) { b.elu(b.in(n, 0), n, n.Output(0)) }

// elu is elu of x, in place where a line says so: modules of it keep their default, inplace=False.
func (b *recovery) elu(x onnxload.ValueID, n *onnxload.Node, out onnxload.ValueID) {
	yes, _ := b.activatesInPlace(n, "elu(")
	b.call("elu", program.Args{Inplace: yes}, []program.ValueID{b.value(x)}, out)
}

// isKnown reports whether a value is a number that the file has.
func (b *recovery) isKnown(id onnxload.ValueID) bool {
	_, ok := b.number(id)
	return ok
}

// matchSoftplus finds softplus(x, beta, threshold) as torch.export's exporter writes it, Where(x * beta > threshold, x,
// Softplus(x * beta) / beta) (torchlib aten_softplus), which has the operator's name in its graph: softplus_1.
// Optimizers leave out a beta of 1. TorchScript's is Softplus alone: a Where behind that is the program's,
// torch.where(x > 20, x, F.softplus(x)), which keeps its condition.
func matchSoftplus(b *recovery, i int) {
	soft := b.nodes[i]
	scaled, last, members := b.in(soft, 0), soft.Output(0), []int{i}
	if div, di := b.user(last, "Div"); div != nil && b.isKnown(b.in(div, 1)) {
		last, members = div.Output(0), append(members, di)
	}
	where, wi := b.user(last, "Where")
	if where == nil || b.in(where, 2) != b.id(last) || !strings.HasPrefix(b.m.NameOf(where.Output(0)), "softplus") {
		return
	}
	large, li := b.producedBy(b.in(where, 0), "Greater")
	if large == nil || b.in(large, 0) != scaled || !b.isKnown(b.in(large, 1)) || !b.single(large.Output(0)) {
		return
	}
	x := b.in(where, 1)
	if x != scaled {
		beta, bi := b.producedBy(scaled, "Mul")
		if beta == nil || b.in(beta, 0) != x || !b.isKnown(b.in(beta, 1)) || len(b.usesOf(scaled)) != 2 {
			return
		}
		members = append(members, bi)
	}
	b.claim(func() { b.call("softplus", program.Args{}, []program.ValueID{b.value(x)}, where.Output(0)) },
		append(members, wi, li)...)
}

// matchSoftshrink finds softshrink(x, lambd) as torch.export takes it apart, where(|x| > lambd, x - sign(x) * lambd, x
// * 0) (softshrink in torch/_refs/nn/functional).
func matchSoftshrink(b *recovery, i int) {
	sign := b.nodes[i]
	x, members := b.in(sign, 0), []int{i}
	last := sign.Output(0)
	if mul, mi := b.user(last, "Mul"); mul != nil && b.isKnown(b.in(mul, 1)) {
		last, members = mul.Output(0), append(members, mi)
	}
	sub, si := b.user(last, "Sub")
	if sub == nil || b.in(sub, 0) != x {
		return
	}
	where, wi := b.user(sub.Output(0), "Where")
	if where == nil || b.in(where, 1) != b.id(sub.Output(0)) {
		return
	}
	large, li := b.producedBy(b.in(where, 0), "Greater")
	zero, zi := b.producedBy(b.in(where, 2), "Mul")
	if large == nil || zero == nil || b.in(zero, 0) != x || !b.isNumber(b.in(zero, 1), 0) ||
		!b.isKnown(b.in(large, 1)) || !b.single(large.Output(0)) || !b.single(zero.Output(0)) {
		return
	}
	abs, ai := b.producedBy(b.in(large, 0), "Abs")
	if abs == nil || b.in(abs, 0) != x || !b.single(abs.Output(0)) {
		return
	}
	b.claim(func() { b.call("hardshrink", program.Args{}, []program.ValueID{b.value(x)}, where.Output(0)) },
		append(members, si, wi, li, zi, ai)...)
}

// An activationClass is a module of torch.nn that torch.export takes apart into what any program may have written, with
// the nodes that exporters write then.
type activationClass struct{ class, nodes string }

var activationClasses = []activationClass{
	{"Hardshrink", "Abs LessOrEqual Where"}, // torch/_refs/nn/functional
	{"Threshold", "LessOrEqual Where"},      // likewise
}

// matchActivation finds a module of one of these classes by its last node.
func matchActivation(b *recovery, i int) {
	at := b.places[i]
	k := slices.IndexFunc(activationClasses, func(c activationClass) bool { return at.Class == c.class })
	if k < 0 || !at.Torch {
		return
	}
	row := &activationClasses[k]
	x, members := onnxload.NoValue, []int{i}
	for j := i - 1; j >= 0 && b.places[j].Module == at.Module; j-- {
		if b.fixed[b.id(b.nodes[j].Output(0))] {
			continue // a number
		}
		if b.done[j] {
			return
		}
		members = append(members, j)
	}
	var ops []string
	for _, j := range slices.Backward(members) {
		n := b.nodes[j]
		ops = append(ops, n.Op)
		for s := range n.In {
			v := b.in(n, s)
			made := b.made[v]
			if _, number := b.number(v); number || v == x || made >= 0 && slices.Contains(members, int(made)) {
				continue
			}
			if x != onnxload.NoValue {
				return
			}
			x = v
		}
	}
	if x == onnxload.NoValue || strings.Join(ops, " ") != row.nodes {
		return
	}
	b.claim(func() {
		b.call(strings.ToLower(row.class), program.Args{}, []program.ValueID{b.value(x)}, b.nodes[i].Output(0))
	}, members...)
}
