package recover

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/module"
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

// emitConstant makes a tensor of what the program has as numbers, unless a module keeps it.
func emitConstant(b *recovery, n *onnxload.Node) {
	if !b.tableIndex(n.Output(0)) {
		emitFill(b, n)
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

// A constantKey tells views of what the exporter computed apart.
type constantKey struct {
	from  string
	dtype program.DType
	dims  string
}

// isComputed reports whether a value is a tensor that the program computes, of which the exporter made a constant.
func (b *recovery) isComputed(id onnxload.ValueID) bool {
	return b.made[id] < 0 && !b.ofModule(id) && !b.host[id] && b.m.Values[id].Init != nil &&
		program.Numel(b.dims(id)) != 1 && module.IsComputed(b.m.NameOf(id), b.m.Values[id].Init)
}

// computed makes such a tensor where it is first read. Views of the same are one: cos.unsqueeze(1) of each layer.
func (b *recovery) computed(id onnxload.ValueID) program.ValueID {
	d, dtype := b.dims(id), b.elem(id)
	key := constantKey{b.m.Values[id].Init.Folded, dtype, fmt.Sprint(d)}
	view := module.IsView(b.m.NameOf(id))
	if view && b.views[key] != program.NoValue {
		b.of[id] = b.views[key]
		return b.of[id]
	}
	first := len(b.prog.Calls)
	b.of[id] = b.temp("fill", program.Args{DType: dtype, Shape: d}, dtype, d)
	if name := b.trainedOf(id); name != "" {
		b.of[id] = b.temp("add", program.Args{Inplace: true}, dtype, d, b.of[id], b.foldedParameter(name, dtype))
	}
	for i := range b.prog.Calls[first:] {
		b.prog.Calls[first+i].Stack = 0 // it was not the reader's line that made it
	}
	if view {
		b.views[key] = b.of[id]
	}
	return b.of[id]
}

// trainedOf returns the name of a parameter that what the exporter computed was computed of, "" where there is none: it
// has a gradient then, which goes on to parameters whose sizes the file does not have any more.
func (b *recovery) trainedOf(id onnxload.ValueID) string {
	if !b.elem(id).IsFloat() {
		return ""
	}
	for from := range module.FoldedFrom(b.m.Values[id].Init) {
		if b.m.Trained[from] {
			return from
		}
	}
	return ""
}

// foldedParameter returns a parameter that was folded, of whose size no more is known than that it has one.
func (b *recovery) foldedParameter(name string, dtype program.DType) program.ValueID {
	p, ok := b.gone[name]
	if !ok {
		p = b.add(program.Value{Name: name, Kind: program.Parameter, DType: dtype, Shape: []int64{1}})
		b.prog.State = append(b.prog.State, p)
		b.gone[name] = p
	}
	return p
}
