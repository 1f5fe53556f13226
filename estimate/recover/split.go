package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchTensorSplit finds torch.tensor_split at given places, which the TorchScript exporter writes as a loop that
// collects the slices between them in a sequence, and the last slice put behind it. Its parts are slices of one tensor
// (tensor_split in aten/src/ATen/native/TensorShape.cpp), each with a backward of its own.
func matchTensorSplit(b *recovery, i int) {
	insert := b.nodes[i]
	loop, li := b.producedBy(b.in(insert, 0), "Loop")
	last, si := b.producedBy(b.in(insert, 1), "Slice")
	if loop == nil || last == nil || len(insert.In) > 2 && insert.Input(2) != onnxload.NoValue {
		return
	}
	seq, x := b.id(insert.Output(0)), b.in(last, 0)
	axis, ok := b.number(b.in(last, 3))
	shape := b.dims(x)
	if axis < 0 {
		axis += float64(len(shape))
	}
	if !ok || axis < 0 || int(axis) >= len(shape) || b.out[seq] || !b.loopReads(loop, x) {
		return
	}
	d := int(axis)
	members := []int{li, si, i}
	parts := map[int]onnxload.ValueID{}
	for _, u := range b.usesOf(seq) {
		at := b.nodes[u]
		k, ok := b.number(b.in(at, 1))
		if at.Op != "SequenceAt" || !ok || k < 0 || k >= maxParts {
			return
		}
		if first, again := parts[int(k)]; again {
			b.same[at.Output(0)] = first
		} else {
			parts[int(k)] = at.Output(0)
		}
		members = append(members, int(u))
	}
	size := int64(0)
	for k := range len(parts) { // all of them, side by side
		part, ok := parts[k]
		if !ok {
			return
		}
		s := b.dims(part)
		if len(s) != len(shape) || !slices.Equal(s[:d], shape[:d]) || !slices.Equal(s[d+1:], shape[d+1:]) {
			return
		}
		size += s[d]
	}
	if len(parts) < 2 || size != shape[d] {
		return
	}
	b.claim(func() {
		for k := range len(parts) {
			b.call("slice", program.Args{Dims: []int{d}, Shape: []int64{b.dims(parts[k])[d]}}, []program.ValueID{b.value(x)}, parts[k])
		}
	}, i)
	for _, k := range members {
		b.done[k] = true
	}
}

// loopReads reports whether the body of a loop reads a value, and nothing else that is computed from data.
func (b *recovery) loopReads(loop *onnxload.Node, x onnxload.ValueID) bool {
	body := b.types.Body(loop)
	if body == nil {
		return false
	}
	reads := false
	for i := range body.Nodes {
		n := &body.Nodes[i]
		for j := range n.In {
			if b.in(n, j) == x {
				if n.Op != "Slice" {
					return false
				}
				reads = true
			}
		}
	}
	return reads
}
