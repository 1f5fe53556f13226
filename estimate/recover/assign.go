package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitScatterND is scatter, unless the places come from shapes alone: then it is an assignment to a slice, x[:, 1:] =
// y, which writes into x. x[:, 1:] += y is an addition in place to the slice, and then that assignment to itself.
func emitScatterND(b *recovery, n *onnxload.Node) {
	in := b.scattered(n)
	x, places := b.in(n, 0), b.in(n, 1)
	again := b.written[x]
	b.written[x] = true
	r := n.Attr("reduction")
	if (r == nil || r.Str == "none") && b.fixed[places] && b.made[x] >= 0 && b.prog.Values[in[0]].Kind == program.Activation {
		views, base := b.looksAt(x)
		if in[0] = b.unshared(x, in[0], views, base); b.assignedCopy(n, base, again) {
			in[0] = b.temp("clone", program.Args{}, b.elem(x), b.dims(x), in[0])
		}
		b.call("assign", program.Args{}, []program.ValueID{in[0], in[2]}, n.Output(0))
		return
	}
	b.call("scatter", program.Args{}, in, n.Output(0))
}

// mostViews is how many views upon views are followed. Real programs take three or four.
const mostViews = 64

// looksAt follows a value through views to what they look at, and returns these from the outermost.
func (b *recovery) looksAt(x onnxload.ValueID) (views []*onnxload.Node, base onnxload.ValueID) {
	for base = x; len(views) < mostViews && b.isView(base); {
		n := b.nodes[b.made[base]]
		views, base = append(views, n), b.in(n, 0)
	}
	return views, base
}

// unshared returns what an assignment writes into where that is a view of a new tensor, zeros_like of out =
// torch.zeros_like(x); out[:, 1:] = x[:, :-1]. Eager mode makes one for each run of these lines. Exporters make one of
// all that are alike: the TorchScript exporter runs _jit_pass_cse (torch/onnx/utils.py, _optimize_graph), and
// onnxscript's optimizer, which the default export uses, CommonSubexpressionEliminationPass, which leaves one of their
// views as well. So what was assigned to as a whole is made again for the next.
func (b *recovery) unshared(x onnxload.ValueID, v program.ValueID, views []*onnxload.Node,
	base onnxload.ValueID) program.ValueID {
	i := b.made[base]
	if i < 0 || b.rows[i] == nil || b.emit[i] != nil || b.done[i] || b.out[base] || !b.isNew(b.of[base]) {
		return v
	}
	if b.assigned[base] {
		b.rows[i].emit(b, b.nodes[i])
		b.assigned[base] = false
	}
	for _, n := range slices.Backward(views) {
		if out := n.Output(0); b.callOf(b.of[out]).In[0] != b.of[b.in(n, 0)] {
			b.rows[b.made[out]].emit(b, n)
		}
	}
	b.assigned[base] = !slices.ContainsFunc(views, func(n *onnxload.Node) bool {
		return program.Numel(b.dims(n.Output(0))) != program.Numel(b.dims(b.in(n, 0)))
	})
	return b.of[x]
}

// assignedCopy reports whether an assignment writes into a copy, y = x.clone(); y[:, i] = 1, of which exporters keep no
// node: onnxscript's optimizer drops the Identity, the TorchScript exporter makes none (clone, in
// torch/onnx/_internal/torchscript_exporter/symbolic_opset9.py). An export has what was written under a new name, and
// all that reads the tensor after that reads the new one. So where something reads the old one still, or the model
// returns it, that is another tensor; so is the copy of the last of several assignments to one tensor. Casts are left
// alone: a program that casts anew for each assignment copies nothing, and exporters make one cast of several that are
// alike.
func (b *recovery) assignedCopy(n *onnxload.Node, base onnxload.ValueID, again bool) bool {
	x := b.in(n, 0)
	cast := b.made[base] >= 0 && len(b.nodes[b.made[base]].In) == 1 &&
		b.elem(b.in(b.nodes[b.made[base]], 0)) != b.elem(base)
	if c := b.callOf(b.of[x]); cast || b.isNew(b.of[base]) || c == nil || c.Op == "clone" {
		return false
	}
	uses := b.usesOf(x)
	after, _ := slices.BinarySearch(uses, int32(b.at)+1)
	return again || b.out[x] || slices.ContainsFunc(uses[after:], func(u int32) bool {
		return b.nodes[u].Op != n.Op || b.in(b.nodes[u], 0) == x
	})
}

// isView reports whether a value looks at another one as its node says, and no pattern has the node.
func (b *recovery) isView(id onnxload.ValueID) bool {
	i, c := b.made[id], b.callOf(b.of[id])
	if i < 0 || c == nil || b.emit[i] != nil || b.done[i] || !program.Of(c.Op).Is(program.Look|program.Picks) {
		return false
	}
	return b.prog.Values[c.In[0]].Name != "" // what is copied has no name
}

// isNew reports whether a factory made a value.
func (b *recovery) isNew(v program.ValueID) bool {
	c := b.callOf(v)
	return c != nil && program.Of(c.Op).Is(program.Factory)
}
