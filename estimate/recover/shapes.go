package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitPad pads. Where there is nothing to pad, constant_pad_nd makes a copy (aten/src/ATen/native/PadNd.cpp).
func emitPad(b *recovery, n *onnxload.Node) {
	op := "constant_pad"
	if a := n.Attr("mode"); a != nil && a.Str != "constant" {
		op = "reflection_pad"
	}
	in, out := b.dims(b.in(n, 0)), b.dims(n.Output(0))
	if pool, _ := b.user(n.Output(0), "AveragePool"); slices.Equal(in, out) && pool != nil {
		b.same[n.Output(0)] = b.in(n, 0) // the exporter's, for count_include_pad
		return
	}
	b.call(op, program.Args{Shape: out}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// emitSqueeze is a view, and contiguous after it where nn.MultiheadAttention has turned its packed projection so that
// query, key and value come first and are then picked one by one: the exporters leave that copy out, but what
// follows looks at each part in another shape without one.
func emitSqueeze(b *recovery, n *onnxload.Node) {
	x, out := b.in(n, 0), b.id(n.Output(0))
	p, _ := b.producer(x)
	d := b.dims(out)
	packed := p != nil && p.Op == "Transpose" && len(d) > 1 && d[0] > 1 && int64(len(b.usesOf(out))) == d[0]
	for _, i := range b.usesOf(out) {
		g := b.nodes[i]
		packed = packed && g.Op == "Gather" && attrInt(g, "axis", 0) == 0 && len(b.dims(b.in(g, 1))) == 0
	}
	if !packed {
		emitReshape(b, n)
		return
	}
	view := b.temp("reshape", program.Args{Shape: d}, b.elem(out), d, b.value(x))
	b.call("contiguous", program.Args{}, []program.ValueID{view}, out)
}

func emitReshape(b *recovery, n *onnxload.Node) {
	o := n.Output(0)
	if b.cloned[o] {
		v := b.temp("reshape", program.Args{Shape: b.dims(o)}, b.elem(o), b.dims(o), b.value(b.in(n, 0)))
		b.call("contiguous", program.Args{}, []program.ValueID{v}, o)
		return
	}
	b.call("reshape", program.Args{Shape: b.dims(o)}, []program.ValueID{b.value(b.in(n, 0))}, o)
}

func emitTranspose(b *recovery, n *onnxload.Node) {
	rank := len(b.dims(n.Output(0)))
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	for i, p := range attrInts(n, "perm") {
		perm[i] = int(p)
	}
	if copied, known := b.copied(n); copied || !known && b.isBiasTable(n, perm) && b.guess(biasTableCopy) {
		v := b.temp("permute", program.Args{Dims: perm}, b.elem(n.Output(0)), b.dims(n.Output(0)), b.value(b.in(n, 0)))
		b.call("contiguous", program.Args{}, []program.ValueID{v}, n.Output(0))
		return
	}
	b.call("permute", program.Args{Dims: perm}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// emitExpand is expand, but for the factories that torch.export's exporter writes as an Expand of a number (torchlib
// aten_full, aten_zeros_like and their kin): their results keep the operator's name.
func emitExpand(b *recovery, n *onnxload.Node) {
	out := n.Output(0)
	if _, ok := b.number(b.in(n, 0)); ok && factories[strings.TrimRight(b.m.NameOf(out), "_0123456789")] {
		b.call("fill", program.Args{DType: b.elem(out), Shape: b.dims(out)}, b.shapeGiver(b.in(n, 1), out), out)
		return
	}
	b.call("expand", program.Args{Shape: b.dims(n.Output(0))}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// factories are the operators that fill a new tensor with one number.
var factories = map[string]bool{
	"zeros": true, "ones": true, "full": true, "new_zeros": true, "new_ones": true, "new_full": true, "zeros_like": true,
	"ones_like": true, "full_like": true,
}

func emitTile(b *recovery, n *onnxload.Node) {
	if slices.Equal(b.dims(b.in(n, 0)), b.dims(n.Output(0))) {
		b.same[n.Output(0)] = b.in(n, 0)
		return
	}
	b.call("tile", program.Args{Shape: b.dims(n.Output(0))}, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// emitSlice is a slice for every dimension that gets shorter or is stepped through.
func emitSlice(b *recovery, n *onnxload.Node) {
	in, out := b.dims(b.in(n, 0)), b.dims(n.Output(0))
	if slices.Equal(in, out) && b.backwards(b.in(n, 4)) {
		emitReversed(b, n)
		return
	}
	var args program.Args
	for i := range in {
		if in[i] != out[i] {
			args.Dims = append(args.Dims, i)
			args.Shape = append(args.Shape, out[i])
		}
	}
	b.call("slice", args, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// emitSplit is a split. Parts that the node leaves out are there all the same: the first has what
// the others leave.
func emitSplit(b *recovery, n *onnxload.Node) {
	in := b.dims(b.in(n, 0))
	args := program.Args{Dim: b.axis(n, 0, len(in))}
	if args.Dim >= len(in) {
		b.fail("node %q (Split) cuts a scalar", n.Name)
		return
	}
	args.Shape = make([]int64, len(n.Out))
	rest, absent := in[args.Dim], -1
	for i, o := range n.Out {
		switch {
		case o != onnxload.NoValue:
			s := b.dims(o)
			if len(s) != len(in) {
				b.fail("part %d of node %q (Split) has no shape", i, n.Name)
				return
			}
			args.Shape[i] = s[args.Dim]
			rest -= s[args.Dim]
		case absent < 0:
			absent = i
		}
	}
	if absent >= 0 {
		args.Shape[absent] = max(rest, 0)
	}
	b.call("split", args, []program.ValueID{b.value(b.in(n, 0))}, n.Out...)
}

// axis returns the axis attribute, counted from the front.
func (b *recovery) axis(n *onnxload.Node, def int64, rank int) int {
	a := int(attrInt(n, "axis", def))
	if a < 0 {
		a += rank
	}
	if a < 0 || a >= max(rank, 1) {
		b.fail("axis %d of node %q is outside a tensor of rank %d", a, n.Name, rank)
		return 0
	}
	return a
}

func emitConcat(b *recovery, n *onnxload.Node) {
	var in []program.ValueID
	for i := range n.In {
		if v := b.in(n, i); v != onnxload.NoValue && program.Numel(b.dims(v)) > 0 {
			in = append(in, b.device(b.value(v), v))
		}
	}
	if len(in) == 0 {
		emitFill(b, n)
		return
	}
	b.call("cat", program.Args{Dim: b.axis(n, 0, len(b.dims(n.Output(0))))}, in, n.Output(0))
}

// device returns v, or for a Python number a tensor of it.
func (b *recovery) device(v program.ValueID, id onnxload.ValueID) program.ValueID {
	if b.prog.Values[v].Kind != program.Number {
		return v
	}
	return b.temp("fill", program.Args{DType: b.elem(id), Shape: b.dims(id)}, b.elem(id), b.dims(id))
}

// emitGather is embedding of a table by integers, select by one number, or index_select.
func emitGather(b *recovery, n *onnxload.Node) {
	x, idx := b.in(n, 0), b.in(n, 1)
	d := b.dims(x)
	a := b.axis(n, 0, len(d))
	switch {
	case b.isParameter(x) && a == 0 && len(d) == 2 && !b.host[idx]:
		b.call("embedding", program.Args{}, []program.ValueID{b.value(x), b.value(idx)}, n.Output(0))
	case len(b.dims(idx)) == 0:
		b.call("select", program.Args{Dim: a}, []program.ValueID{b.value(x)}, n.Output(0))
	default:
		b.call("index", program.Args{Dim: a, Shape: b.dims(n.Output(0))},
			[]program.ValueID{b.value(x), b.device(b.value(idx), idx)},
			n.Output(0))
	}
}

func emitGatherElements(b *recovery, n *onnxload.Node) {
	b.call("gather", program.Args{}, b.values(n), n.Output(0))
}

func emitGatherND(b *recovery, n *onnxload.Node) {
	idx := b.in(n, 1)
	b.call("index", program.Args{Shape: b.dims(n.Output(0))},
		[]program.ValueID{b.value(b.in(n, 0)), b.device(b.value(idx), idx)},
		n.Output(0))
}

func emitScatter(b *recovery, n *onnxload.Node) {
	b.call("scatter", program.Args{}, b.scattered(n), n.Output(0))
}

// scattered returns what a scatter is given, as tensors.
func (b *recovery) scattered(n *onnxload.Node) []program.ValueID {
	in := make([]program.ValueID, 3)
	for i := range in {
		in[i] = b.device(b.value(b.in(n, i)), b.in(n, i))
	}
	return in
}
