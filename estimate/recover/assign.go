package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitScatterND is scatter, unless the places come from shapes alone: then it is an assignment to a slice, x[:, 1:] =
// y, which writes into x. x[:, 1:] += y is an addition in place to the slice, and then that assignment to itself.
func emitScatterND(b *recovery, n *onnxload.Node) {
	in := b.scattered(n)
	x, places := b.in(n, 0), b.in(n, 1)
	r := n.Attr("reduction")
	if (r == nil || r.Str == "none") && b.fixed[places] && b.made[x] >= 0 && b.prog.Values[in[0]].Kind == program.Activation {
		b.call("assign", program.Args{}, []program.ValueID{in[0], in[2]}, n.Output(0))
		return
	}
	b.call("scatter", program.Args{}, in, n.Output(0))
}
