package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitFill makes a tensor on the GPU from nothing.
func emitFill(b *recovery, n *onnxload.Node) {
	b.fill(n, nil)
}

// fill makes the results of a node, like the tensor that is given, if any.
func (b *recovery) fill(n *onnxload.Node, like []program.ValueID) {
	for _, o := range n.Out {
		if o != onnxload.NoValue {
			b.call("fill", program.Args{DType: b.elem(o), Shape: b.dims(o)}, like, o)
		}
	}
}

// emitFilled is zeros, ones or full, or one of those of another tensor's shape.
func emitFilled(b *recovery, n *onnxload.Node) {
	b.fill(n, b.shapeGiver(b.in(n, 0), n.Output(0)))
}

// shapeGiver returns the tensor that zeros_like, ones_like or full_like took its shape from, which gives them its
// type too: the shape is that tensor's and was not put together of sizes. Nothing where there is none.
func (b *recovery) shapeGiver(size, out onnxload.ValueID) []program.ValueID {
	n, _ := b.producer(size)
	if n == nil || n.Op != "Shape" || attrInt(n, "start", 0) != 0 || n.Attr("end") != nil {
		return nil
	}
	x := b.in(n, 0)
	if x == onnxload.NoValue || b.host[x] || b.fixed[x] || !b.elem(x).IsFloat() || b.elem(x) != b.elem(out) ||
		b.of[x] == program.NoValue {
		return nil
	}
	return []program.ValueID{b.value(x)}
}
