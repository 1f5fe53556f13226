package recover

import (
	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// emitReduce reads the axes from the attribute or, in later opsets, from the input; how the output's shape differs
// tells them where neither can be read. withPlaces is the operator that is exported alike and also says where what it
// returns was; "" for none.
func emitReduce(op, withPlaces string) func(*recovery, *onnxload.Node) {
	return func(b *recovery, n *onnxload.Node) {
		args := b.reduction(n, b.axes(n))
		if len(args.Dims) == 0 && attrInt(n, "noop_with_empty_axes", 0) != 0 {
			b.same[n.Output(0)] = b.in(n, 0)
			return
		}
		if withPlaces != "" && b.withPlaces(args) {
			b.call(withPlaces, args, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0), onnxload.NoValue)
			return
		}
		b.call(op, args, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
	}
}

// withPlaces reports whether the largest or least of a dimension were asked for with their places, x.max(dim), which
// backward scatters to, rather than alone, x.amax(dim). Both are exported alike; torch.export notes the operator, and
// else a single dimension is taken for the older and more common call. max takes no more than one.
func (b *recovery) withPlaces(args program.Args) bool {
	if len(args.Dims) != 1 {
		return false
	}
	switch b.places[b.at].Op {
	case "max", "min":
		return true
	case "":
		b.maxima++
		return !b.src.Most
	}
	return false
}

// emitArg is where the largest or the least of a dimension is.
func emitArg(b *recovery, n *onnxload.Node) {
	args := b.reduction(n, []int64{attrInt(n, "axis", 0)})
	b.call("argmax", args, []program.ValueID{b.value(b.in(n, 0))}, n.Output(0))
}

// axes returns the dimensions that a reduction works on, as the attribute or the input lists them.
func (b *recovery) axes(n *onnxload.Node) []int64 {
	axes := attrInts(n, "axes")
	if axes != nil {
		return axes
	}
	id := b.in(n, 1)
	if id == onnxload.NoValue {
		return nil
	}
	c := b.types.Value(id)
	if c == nil { // They come with the data. What they did to the shape tells which they are.
		return reducedAxes(b.dims(b.in(n, 0)), b.dims(n.Output(0)), attrInt(n, "keepdims", 1) != 0)
	}
	for _, d := range c.Ints {
		k, _ := d.Int()
		axes = append(axes, k)
	}
	return axes
}

// reducedAxes returns dimensions whose reduction makes a tensor of shape in one of shape out. Of several that are as
// long the first is kept. It is empty where no reduction does.
func reducedAxes(in, out []int64, keep bool) (axes []int64) {
	kept := 0
	for i, n := range in {
		switch {
		case keep && i < len(out) && (out[i] != n || n == 1), !keep && (kept == len(out) || out[kept] != n):
			axes = append(axes, int64(i))
		default:
			kept++
		}
	}
	if keep && len(out) != len(in) || !keep && kept != len(out) {
		return nil
	}
	return axes
}

// reduction returns the arguments of a reduction over these dimensions.
func (b *recovery) reduction(n *onnxload.Node, axes []int64) program.Args {
	rank := len(b.dims(b.in(n, 0)))
	args := program.Args{Keep: attrInt(n, "keepdims", 1) != 0}
	args.Dims = make([]int, 0, len(axes))
	for _, a := range axes {
		if a < 0 {
			a += int64(rank)
		}
		args.Dims = append(args.Dims, int(a))
	}
	return args
}

func emitTopK(b *recovery, n *onnxload.Node) {
	b.call("topk", program.Args{Shape: b.dims(n.Output(0))}, []program.ValueID{b.value(b.in(n, 0))}, n.Out...)
}
