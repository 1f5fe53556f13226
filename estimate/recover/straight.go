package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
)

// matchStraightThrough finds y - x of x + (y - x).detach(), a straight-through estimator: its value is y, and the
// gradient is x's. TorchScript's exporter drops detach, and so does the optimiser of the default export. Nobody adds
// what was taken away a moment before for the value's sake, so that what made y needs no gradient, and keeps nothing.
// So write quantizers of vectors, x + (quantized - x).detach(), and of weights, hard.detach() - x.detach() + x.
func matchStraightThrough(b *recovery, i int) {
	sub := b.nodes[i]
	add, _ := b.user(sub.Output(0), "Add")
	if add == nil || !b.src.Train {
		return
	}
	x := b.other(add, sub.Output(0))
	if b.id(x) != b.id(b.in(sub, 1)) || b.id(b.in(sub, 0)) == b.id(x) || !b.isTensor(x) || !b.isTensor(b.in(sub, 0)) ||
		!b.elem(x).IsFloat() || !slices.Equal(b.dims(x), b.dims(sub.Output(0))) {
		return
	}
	b.claim(func() {
		v := b.temp("sub", program.Args{}, b.elem(sub.Output(0)), b.dims(sub.Output(0)), b.operands(sub)...)
		b.call("detach", program.Args{}, []program.ValueID{v}, sub.Output(0))
	}, i)
}
