package fromonnx

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/onnxload"
)

// listNodes are the operators of sequences: Python lists, which take no memory of their own.
var listNodes = []nodeRow{
	{"SequenceEmpty", emitList}, {"SequenceConstruct", emitList}, {"SequenceInsert", emitList}, {"SequenceErase", emitList},
	{"SequenceAt", emitListItem}, {"ConcatFromSequence", emitListCat},
}

// maxListed is how many items all lists together are followed with: each node of a long one has a list of its own.
const maxListed = 1 << 22

// emitList follows which tensors a list has. What is not known is no list.
func emitList(b *recovery, n *onnxload.Node) {
	o := n.Out[0]
	if b.lists == nil {
		b.lists = map[onnxload.ValueID][]onnxload.ValueID{}
	}
	if n.Op == "SequenceEmpty" || n.Op == "SequenceConstruct" {
		list := []onnxload.ValueID{}
		for i := range n.In {
			list = append(list, b.in(n, i))
		}
		b.lists[o] = list
		return
	}
	from, ok := b.lists[b.in(n, 0)]
	if !ok {
		b.unknown[int32(b.at)] = b.nodeName()
		return
	}
	slot, last := 1, len(from)-1
	if n.Op == "SequenceInsert" {
		slot, last = 2, len(from)
	}
	at, known := b.place(b.in(n, slot), last, len(from))
	b.listed += len(from)
	switch {
	case !known || len(from) >= maxParts || b.listed > maxListed:
	case n.Op == "SequenceInsert":
		b.lists[o] = slices.Insert(slices.Clone(from), at, b.in(n, 1))
		return
	case at < len(from):
		b.lists[o] = slices.Delete(slices.Clone(from), at, at+1)
		return
	}
	b.unknown[int32(b.at)] = b.nodeName()
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
	if !ok || !known || at >= len(list) || list[at] == onnxload.NoValue || !slices.Equal(b.dims(list[at]), b.dims(n.Out[0])) {
		b.opaque(n)
		return
	}
	b.same[n.Out[0]] = list[at]
}

// emitListCat is cat or stack of a list.
func emitListCat(b *recovery, n *onnxload.Node) {
	list, ok := b.lists[b.in(n, 0)]
	if !ok || len(list) == 0 || slices.Contains(list, onnxload.NoValue) {
		b.opaque(n)
		return
	}
	in := make([]aten.ValueID, len(list))
	axis := b.axis(n, 0, len(b.dims(n.Out[0])))
	stack := attrInt(n, "new_axis", 0) != 0
	for i, id := range list {
		in[i] = b.device(b.value(id), id)
		if s := b.dims(id); stack && axis <= len(s) {
			in[i] = b.temp("unsqueeze", aten.Args{Dim: axis}, b.elem(id), slices.Insert(slices.Clone(s), axis, 1), in[i])
		}
	}
	b.call("cat", aten.Args{Dim: axis}, in, n.Out[0])
}
