package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// isName reports whether a node only gives a value another name.
func (b *recovery) isName(n *onnxload.Node) bool {
	return n.Op == "Identity" && n.Domain == "" && len(n.In) == 1 && !(b.src.Train && b.isDetached(n))
}

// isDetached reports whether a node is x.detach(), which torch.export's translation has as one of a name: then no
// gradient goes through it, and what only that would need is not saved. The optimiser of the default export drops it.
func (b *recovery) isDetached(n *onnxload.Node) bool {
	return strings.HasSuffix(n.MetaValue("namespace"), ": aten.detach.default") && b.elem(n.Input(0)).IsFloat()
}

// emitIdentity is what an Identity does that is not only another name: x.detach().
func emitIdentity(b *recovery, n *onnxload.Node) {
	b.call("detach", program.Args{}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// optimized reports whether the graph may have gone through onnxscript's optimizer, which makes Constant nodes
// initializers and leaves no Identity.
func (b *recovery) optimized() bool {
	return !slices.ContainsFunc(b.nodes, func(n *onnxload.Node) bool {
		return n.Op == "Constant" || n.Op == "Identity"
	})
}
