package recover

import (
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
