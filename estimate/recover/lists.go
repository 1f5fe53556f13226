package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// listNodes are the operators of sequences: Python lists, which take no memory of their own.
var listNodes = []nodeRow{
	{"SplitToSequence", "data data?", module.View, nil}, // see matchSplitSequence
	{"SequenceEmpty", "", 0, emitNewList},
	{"SequenceConstruct", "data+", 0, emitNewList},
	{"SequenceInsert", "data data data?", 0, emitInsert},
	{"SequenceErase", "data data?", 0, emitErase},
	{"SequenceAt", "data data", module.View, emitListItem},
	{"SequenceMap", "data+", 0, emitMapped},
	{"ConcatFromSequence", "data", 0, emitListCat},
}

// maxListed is how many items all lists together are followed with: each node of a long one has a list of its own.
const maxListed = 1 << 22

// emitNewList makes a list of a node's inputs.
func emitNewList(b *recovery, n *onnxload.Node) {
	list := []onnxload.ValueID{}
	for i := range n.In {
		list = append(list, b.in(n, i))
	}
	b.keepList(n.Output(0), list)
}

// keepList follows which tensors a list has. What is not known is no list.
func (b *recovery) keepList(id onnxload.ValueID, list []onnxload.ValueID) {
	if b.lists == nil {
		b.lists = map[onnxload.ValueID][]onnxload.ValueID{}
	}
	b.lists[id] = list
}

// emitInsert is a list with one more item, at its end unless the node says where.
func emitInsert(b *recovery, n *onnxload.Node) {
	from, ok := b.lists[b.in(n, 0)]
	if at, known := b.place(b.in(n, 2), len(from), len(from)); ok && known && b.followed(from) {
		b.keepList(n.Output(0), slices.Insert(slices.Clone(from), at, b.in(n, 1)))
		return
	}
	b.unknown[int32(b.at)] = b.nodeName()
}

// emitErase is a list without one of its items, the last unless the node says which.
func emitErase(b *recovery, n *onnxload.Node) {
	from, ok := b.lists[b.in(n, 0)]
	if at, known := b.place(b.in(n, 1), len(from)-1, len(from)); ok && known && at < len(from) && b.followed(from) {
		b.keepList(n.Output(0), slices.Delete(slices.Clone(from), at, at+1))
		return
	}
	b.unknown[int32(b.at)] = b.nodeName()
}

// followed reports whether a list that one more node changes may still be followed.
func (b *recovery) followed(list []onnxload.ValueID) bool {
	b.listed += len(list)
	return len(list) < maxParts && b.listed <= maxListed
}

// place reads a position in a list of n, the last by default; ok is false where it is not known, or outside.
func (b *recovery) place(id onnxload.ValueID, last, n int) (at int, ok bool) {
	if id == onnxload.NoValue {
		return last, last >= 0
	}
	x, ok := b.number(id)
	at = int(x)
	if at < 0 {
		at += n
	}
	return at, ok && at >= 0 && at <= n
}

// emitListItem is list[i].
func emitListItem(b *recovery, n *onnxload.Node) {
	list, ok := b.lists[b.in(n, 0)]
	at, known := b.place(b.in(n, 1), -1, len(list))
	if !ok || !known || at >= len(list) || list[at] == onnxload.NoValue ||
		!slices.Equal(b.dims(list[at]), b.dims(n.Output(0))) {
		b.opaque(n)
		return
	}
	b.same[n.Output(0)] = list[at]
}

// emitMapped is a list of what a graph makes of the items of another. torch.hstack, vstack and dstack are exported as
// atleast_1d, 2d or 3d of each tensor before they are joined: an If that hands tensors of that rank on.
func emitMapped(b *recovery, n *onnxload.Node) {
	list, ok := b.lists[b.in(n, 0)]
	flow, known := b.types.Flow(n)
	if !ok || !known || flow.Body == nil || len(n.Out) != 1 || !b.handsOn(flow.Body, flow.Body.Inputs[0]) {
		b.opaque(n)
		return
	}
	b.keepList(n.Output(0), list)
}

// handsOn reports whether the only result of a graph is this value, by other names and through the branches of Ifs that
// are taken.
func (b *recovery) handsOn(g *onnxload.Graph, value onnxload.ValueID) bool {
	if len(g.Outputs) != 1 {
		return false
	}
	out := g.Outputs[0]
	for i := len(g.Nodes) - 1; i >= 0 && out != value; i-- {
		n := &g.Nodes[i]
		if n.Output(0) != out {
			continue
		}
		switch n.Op {
		case "Identity":
			out = n.Input(0)
		case "If":
			flow, known := b.types.Flow(n)
			return known && flow.Body != nil && b.handsOn(flow.Body, value)
		}
	}
	return out == value && out != onnxload.NoValue
}

// emitListCat is cat or stack of a list.
func emitListCat(b *recovery, n *onnxload.Node) {
	list, ok := b.lists[b.in(n, 0)]
	if !ok || len(list) == 0 || slices.Contains(list, onnxload.NoValue) {
		b.opaque(n)
		return
	}
	in := make([]program.ValueID, len(list))
	axis := b.axis(n, 0, len(b.dims(n.Output(0))))
	stack := attrInt(n, "new_axis", 0) != 0
	for i, id := range list {
		in[i] = b.device(b.value(id), id)
		if s := b.dims(id); stack && axis <= len(s) {
			in[i] = b.temp("unsqueeze", program.Args{Dim: axis}, b.elem(id), slices.Insert(slices.Clone(s), axis, 1), in[i])
		}
	}
	b.call("cat", program.Args{Dim: axis}, in, n.Output(0))
}
