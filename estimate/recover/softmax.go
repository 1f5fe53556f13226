package recover

import (
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/dialect"
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
	if b.prog.Sources.OfItsType(soft.Stack) {
		b.matchSoftmaxTyped(i)
		return
	}
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
		case c2 == nil && b.byPyTorch() && soft.MetaValue("namespace") == "" && b.guess(dialect.TypedSoftmax):
			b.typedSoftmax(x, c.Output(0), i, ci)
			return
		}
	}
	if !wide {
		b.matchFloatAttention(i)
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

// matchSoftmaxTyped is a softmax that the program asks for the type of its argument. torch.export leaves a cast to it
// behind, as of any other type that is asked for, and its optimizer none.
func (b *recovery) matchSoftmaxTyped(i int) {
	x, out, members := b.in(b.nodes[i], 0), b.nodes[i].Output(0), []int{i}
	if c, ci := b.user(out, "Cast"); c != nil && strings.HasPrefix(b.m.NameOf(c.Output(0)), "softmax") {
		out, members = c.Output(0), append(members, ci)
	}
	b.typedSoftmax(x, out, members...)
}

// typedSoftmax has some nodes be a softmax in the type of its argument, whatever autocast does.
func (b *recovery) typedSoftmax(x, out onnxload.ValueID, nodes ...int) {
	b.claim(func() { b.call("softmax_typed", program.Args{}, []program.ValueID{b.value(x)}, out) }, nodes...)
}

// matchFloatAttention finds the attention that GPT-J, CodeGen and GPT-Neo write out in transformers, which turns
// query and key into float32 before it multiplies them, and the probabilities back to the values' type. torch.export
// drops all three casts where the model is in float32. What is left to tell it by: the library's mask of two numbers,
// which is a decoder's, as no encoder's attention does so; scores that are divided or not scaled at all, where its
// other decoders multiply them; and a softmax that names no type.
func (b *recovery) matchFloatAttention(i int) {
	soft := b.nodes[i]
	x := b.in(soft, 0)
	divided := func() { // by a number of the program
		if n, _ := b.producedBy(x, "Div"); n != nil && b.isHostNumber(b.in(n, 1)) {
			x = b.in(n, 0)
		}
	}
	divided() // CodeGen adds the mask first
	add, _ := b.producedBy(x, "Add")
	if add == nil || len(b.dims(soft.Output(0))) != 4 {
		return
	}
	mask, _ := b.producer(b.in(add, 1))
	if mask == nil || mask.Op != "Where" || b.elem(b.in(mask, 0)) != program.Bool || !b.isNumber(b.in(mask, 1), 0) ||
		!b.isCausal(b.in(mask, 0)) {
		return
	}
	if low, ok := b.number(b.in(mask, 2)); !ok || low > -1e38 { // torch.finfo(dtype).min
		return
	}
	x = b.in(add, 0)
	divided()
	if n, _ := b.producedBy(x, "Where"); n != nil && b.isHostNumber(b.in(n, 2)) {
		x = b.in(n, 1)
	}
	mm, mi := b.producedBy(x, "MatMul")
	if mm == nil || !b.single(x) {
		return
	}
	if t, _ := b.producer(b.in(mm, 1)); t == nil || t.Op != "Transpose" {
		return
	}
	last, _ := b.user(soft.Output(0), "MatMul")
	if d, _ := b.user(soft.Output(0), "Dropout"); d != nil {
		last, _ = b.user(d.Output(0), "MatMul")
	}
	if last == nil {
		return
	}
	v := b.in(last, 1)
	if _, vi := b.producer(v); vi < 0 || vi > i {
		return
	}
	f := program.Float32
	if !b.guess(dialect.FloatAttention) {
		return
	}
	b.widened++
	b.claim(func() {
		q, k := b.in(mm, 0), b.in(mm, 1)
		in := []program.ValueID{b.temp("float", program.Args{}, f, b.dims(q), b.value(q)),
			b.temp("float", program.Args{}, f, b.dims(k), b.value(k))}
		b.call("matmul", program.Args{}, in, mm.Output(0))
	}, mi)
	b.claim(func() {
		p := b.temp("softmax", program.Args{}, f, b.dims(soft.Output(0)), b.value(b.in(soft, 0)))
		b.call("type_as", program.Args{}, []program.ValueID{p, b.value(v)}, soft.Output(0))
	}, i)
}

// isCausal reports whether places are compared with places somewhere in what makes a mask: rows with columns of it.
// What an optimizer evaluated beforehand is a table of rows and columns.
func (b *recovery) isCausal(mask onnxload.ValueID) bool {
	found := false
	smaller := func(id onnxload.ValueID, d []int64) bool {
		s, ok := b.types.Type(id).Shape.Ints()
		return ok && program.Numel(s) < program.Numel(d)
	}
	b.conditions(mask, func(d []int64, n *onnxload.Node) bool {
		found = len(d) >= 2 && d[len(d)-1] > 1 && d[len(d)-2] > 1 &&
			(n == nil || smaller(b.in(n, 0), d) && smaller(b.in(n, 1), d))
		return found
	})
	return found
}

// conditions calls f for the comparisons by size that a mask is made of, and for the tables with nil, with their
// sizes, until it returns true.
func (b *recovery) conditions(mask onnxload.ValueID, f func(d []int64, n *onnxload.Node) bool) {
	todo := []onnxload.ValueID{mask}
	for range 64 { // transformers' masks take less than thirty
		if len(todo) == 0 {
			return
		}
		id := todo[0]
		todo = todo[1:]
		if id == onnxload.NoValue {
			continue
		}
		d, known := b.types.Type(id).Shape.Ints()
		n, _ := b.producer(id)
		if n == nil {
			if b.m.Values[b.id(id)].Init != nil && b.elem(id) == program.Bool && known && f(d, nil) {
				return
			}
			continue
		}
		switch n.Op {
		case "Less", "LessOrEqual", "Greater", "GreaterOrEqual":
			if len(n.In) == 2 && n.Input(0) != onnxload.NoValue && n.Input(1) != onnxload.NoValue && known && f(d, n) {
				return
			}
		case "Where": // a mask of two numbers
			todo = append(todo, b.in(n, 0))
		case "And", "Or", "Not", "Cast", "Expand", "Reshape", "Unsqueeze", "Squeeze", "Slice", "Transpose", "Trilu":
			for j := range n.In {
				if v := b.in(n, j); v != onnxload.NoValue && b.elem(v) == program.Bool {
					todo = append(todo, v)
				}
			}
		}
	}
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
