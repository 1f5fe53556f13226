package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchPlaces finds max_pool with return_indices=True. ONNX counts places over the whole tensor and PyTorch over each
// map, so that exporters pool once more with a window of one, take each map's first place of that and subtract it
// (_max_pool in symbolic_opset10.py of torch.onnx, aten_max_pool2d_with_indices of torch_lib). PyTorch's kernel writes
// both results in one call.
func matchPlaces(b *recovery, i int) {
	sub := b.nodes[i]
	pool, _ := b.producedBy(b.in(sub, 0), "MaxPool")
	first, fi := b.producedBy(b.in(sub, 1), "Slice")
	if pool == nil || first == nil || b.pooled[pool] != onnxload.NoValue || b.id(pool.Output(1)) != b.in(sub, 0) ||
		!b.single(sub.Input(0)) || !b.single(sub.Input(1)) {
		return
	}
	one, oi := b.producedBy(b.in(first, 0), "MaxPool")
	wider := func(side int64) bool { return side > 1 }
	if one == nil || b.in(one, 0) != b.in(pool, 0) || b.id(one.Output(1)) != b.in(first, 0) ||
		len(b.usesOf(one.Output(0))) > 0 || slices.ContainsFunc(attrInts(one, "kernel_shape"), wider) {
		return
	}
	b.pooled[pool] = sub.Output(0)
	for _, k := range []int{oi, fi, i} {
		b.done[k] = true
	}
}

// matchUnpool finds max_unpool, which torch.export takes apart (_max_unpoolnd in torch/_decomp/decompositions.py): to
// the places it adds where each map begins, and puts the values there into zeros, all in one dimension. PyTorch's
// kernel adds nothing, and writes into the zeros that it returns.
func matchUnpool(b *recovery, i int) {
	scatter := b.nodes[i]
	out, oi := b.through(scatter.Output(0))
	zeros, zi := b.behind(scatter.Input(0), "Transpose", "Reshape")
	fill, _ := b.producer(b.behindCast(zeros))
	x, xi := b.behind(scatter.Input(2), "Expand", "Transpose", "Reshape")
	flat, li := b.behind(scatter.Input(1), "Concat", "Unsqueeze", "Reshape")
	add, ai := b.producedBy(flat, "Add")
	if fill == nil || fill.Op != "ConstantOfShape" || add == nil || !b.single(flat) || out == onnxload.NoValue {
		return
	}
	places, begins := b.in(add, 0), b.in(add, 1)
	dims := b.dims(x)
	if len(dims) < 3 || !slices.Equal(b.dims(places), dims) || !slices.Equal(b.dims(out), b.dims(zeros)) ||
		!b.mapBegins(begins, dims, b.dims(out)) {
		return
	}
	members := slices.Concat(xi, li, zi, oi, []int{ai, i})
	b.claim(func() {
		b.call("max_unpool", program.Args{Shape: b.dims(out)},
			[]program.ValueID{b.value(x), b.device(b.value(places), places)}, out)
	}, members...)
}

// mapBegins reports whether a value is where each map of so many begins: a range times the elements of one of out's.
func (b *recovery) mapBegins(id onnxload.ValueID, dims, out []int64) bool {
	mul, _ := b.producer(id)
	if mul == nil || mul.Op != "Mul" {
		return false
	}
	begins := b.dims(id)
	if len(begins) != len(dims) || len(out) != len(dims) || program.Numel(begins[2:]) != 1 ||
		!slices.Equal(begins[:2], dims[:2]) || !slices.Equal(out[:2], dims[:2]) {
		return false
	}
	size, ok := b.number(b.in(mul, 1))
	return ok && int64(size) == program.Numel(out[2:])
}

// behind returns what a value was made of by these operators, any of which may be missing, and their nodes; each is
// read by the next alone.
func (b *recovery) behind(id onnxload.ValueID, ops ...string) (onnxload.ValueID, []int) {
	var members []int
	for _, op := range ops {
		if n, i := b.producedBy(id, op); n != nil && b.single(id) && (op != "Concat" || len(n.In) == 1) {
			id, members = b.in(n, 0), append(members, i)
		}
	}
	return b.id(id), members
}

// behindCast returns what a cast, if there is one, was made of.
func (b *recovery) behindCast(id onnxload.ValueID) onnxload.ValueID {
	if n, _ := b.producer(id); n != nil && (n.Op == "CastLike" || n.Op == "Cast") {
		return b.in(n, 0)
	}
	return id
}

// through returns what a value in one dimension is made again in several, and the nodes on the way.
func (b *recovery) through(id onnxload.ValueID) (onnxload.ValueID, []int) {
	var members []int
	if t, ti := b.user(id, "Transpose"); t != nil {
		id, members = t.Output(0), append(members, ti)
	}
	if n, ni := b.user(id, "Reshape"); n != nil {
		return n.Output(0), append(members, ni)
	}
	return onnxload.NoValue, nil
}
