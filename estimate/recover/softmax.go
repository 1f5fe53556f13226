package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchSoftmaxFloat finds a softmax that is computed in float32 whatever the model's type, as attention does that is
// written out: the argument dtype=torch.float32 leaves a cast behind it in both exports; .float() before it one in
// front of it in TorchScript's, and type_as behind it its name in torch.export's. Probabilities that a product
// takes are cast back before: nobody multiplies two types.
func matchSoftmaxFloat(b *recovery, i int) {
	soft := b.nodes[i]
	x, out := b.in(soft, 0), soft.Output(0)
	if b.elem(x) != program.Float32 {
		return
	}
	members := []int{i}
	wide := strings.HasPrefix(b.m.NameOf(out), "type_as")
	if c, ci := b.upcast(x); c != nil && b.single(x) {
		wide, x, members = true, b.in(c, 0), append(members, ci)
	}
	if c, ci := b.user(out, "Cast"); c != nil && b.elem(c.Output(0)) == program.Float32 {
		c2, ci2 := b.user(c.Output(0), "Cast")
		switch {
		case c2 != nil && b.elem(c2.Output(0)) == program.Float32: // dtype, then .to(query.dtype)
			wide, out, members = true, c2.Output(0), append(members, ci, ci2)
		case strings.HasPrefix(b.m.NameOf(c.Output(0)), "softmax"): // torch.export drops what casts nothing, but for dtype
			wide, out, members = true, c.Output(0), append(members, ci)
		case wide:
			out, members = c.Output(0), append(members, ci)
		}
	}
	if !wide {
		return
	}
	shape := b.dims(out)
	b.claim(func() {
		if !b.isMultiplied(out) {
			b.call("softmax_float", program.Args{}, []program.ValueID{b.value(x)}, out)
			return
		}
		p := b.temp("softmax_float", program.Args{}, program.Float32, shape, b.value(x))
		b.call("type_as", program.Args{}, []program.ValueID{p, b.value(x)}, out)
	}, members...)
}

// upcast returns the cast from float32 to float32 that makes a value, and its index.
func (b *recovery) upcast(id onnxload.ValueID) (*onnxload.Node, int) {
	c, i := b.producedBy(id, "Cast")
	if c == nil || b.elem(b.in(c, 0)) != program.Float32 {
		return nil, -1
	}
	return c, i
}

// isMultiplied reports whether a value goes to a matrix product, through dropout and views of it at most.
func (b *recovery) isMultiplied(id onnxload.ValueID) bool {
	for range 8 {
		if id = b.id(id); id == onnxload.NoValue || len(b.usesOf(id)) != 1 {
			return false
		}
		n := b.nodes[b.usesOf(id)[0]]
		switch n.Op {
		case "MatMul", "Einsum":
			return true
		case "Dropout", "Reshape", "Cast", "Expand", "Squeeze", "Unsqueeze":
			id = n.Output(0)
		default:
			return false
		}
	}
	return false
}
