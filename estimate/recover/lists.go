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
	{"SequenceInsert", "data data data?", 0, nil},
	{"SequenceAt", "data data", module.View, nil}, // the same
	{"ConcatFromSequence", "data", 0, emitListCat},
}

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
	b.lists[id] = list
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
