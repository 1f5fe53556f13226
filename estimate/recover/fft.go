package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchFFT finds Fourier transforms as torch.export's exporter writes them (aten__fft_c2c, aten__fft_r2c and
// aten__fft_c2r in onnxscript/function_libs/torch_lib/ops/fft.py): one DFT a dimension, scaled before or after, where
// PyTorch transforms all dimensions in one call. A real tensor has a last dimension of one put to it, and of the
// complex numbers that a real one is made of, the real half is taken; torch.fft.fft casts real tensors to complex ones
// first, which is a concatenation with zeros.
func matchFFT(b *recovery, i int) {
	n := b.nodes[i]
	onesided, inverse := attrInt(n, "onesided", 0) != 0, attrInt(n, "inverse", 0) != 0
	x, members := b.unscaled(b.in(n, 0))
	dims, out, nodes := b.transforms(i)
	if dims == nil || !b.sized(x) {
		return
	}
	members = append(members, nodes...)
	switch last := b.nodes[nodes[len(nodes)-1]]; {
	case onesided && !inverse:
		u, ui := b.producedBy(x, "Unsqueeze")
		real, rank := onnxload.NoValue, len(b.dims(out))-1
		if u != nil {
			real = b.in(u, 0)
		}
		if real == onnxload.NoValue || !b.sized(real) || len(b.dims(real)) != rank {
			return
		}
		if b.single(x) {
			members = append(members, ui)
		}
		slices.Reverse(dims) // the last is written first
		b.claim(func() { b.call("fft_r2c", program.Args{Dims: dims}, []program.ValueID{b.value(real)}, out) }, members...)
	case last.Op == "Squeeze":
		b.claim(func() {
			b.call("fft_c2r", program.Args{Dims: dims, Shape: b.dims(out)}, []program.ValueID{b.value(x)}, out)
		}, members...)
	case slices.Equal(b.dims(x), b.dims(out)):
		real, ends := b.madeComplex(x)
		if members = append(members, ends...); real == onnxload.NoValue {
			b.claim(func() { b.call("fft", program.Args{}, []program.ValueID{b.value(x)}, out) }, members...)
			return
		}
		b.claim(func() {
			v := b.temp("to_complex", program.Args{}, b.elem(out), b.dims(x), b.value(real))
			b.call("fft", program.Args{}, []program.ValueID{v}, out)
		}, members...)
	}
}

// transforms follows the transforms of one call from its first: their dimensions in the order of the nodes, the call's
// result, and the nodes; a transform to real numbers ends with what takes the real half. None where it is no such call.
func (b *recovery) transforms(i int) (dims []int, out onnxload.ValueID, nodes []int) {
	for n, first := b.nodes[i], b.nodes[i]; ; {
		out = n.Output(0)
		rank := len(b.dims(out))
		at, ok := b.number(b.in(n, 2))
		if !ok || !b.sized(out) || !b.sized(b.in(n, 0)) {
			return nil, onnxload.NoValue, nil
		}
		if at < 0 {
			at += float64(rank)
		}
		if at < 0 || int(at) >= rank-1 || slices.Contains(dims, int(at)) {
			return nil, onnxload.NoValue, nil
		}
		dims, nodes = append(dims, int(at)), append(nodes, i)
		for _, op := range []string{"Mul", "Div"} {
			if s, si := b.user(out, op); s != nil && b.unnamed(out) && b.isHostNumber(b.other(s, out)) {
				out, nodes = s.Output(0), append(nodes, si)
			}
		}
		if attrInt(n, "inverse", 0) != 0 && attrInt(n, "onesided", 0) != 0 {
			return b.realHalf(dims, out, nodes)
		}
		next, ni := b.user(out, "DFT")
		if next == nil || !b.unnamed(out) || b.in(next, 0) != b.id(out) ||
			attrInt(next, "inverse", 0) != attrInt(first, "inverse", 0) ||
			attrInt(next, "onesided", 0) != 0 && attrInt(next, "inverse", 0) == 0 {
			return dims, out, nodes
		}
		n, i = next, ni
	}
}

// realHalf follows what takes the real numbers of a result, x[..., 0], to the end of a call.
func (b *recovery) realHalf(dims []int, out onnxload.ValueID, nodes []int) ([]int, onnxload.ValueID, []int) {
	if s, si := b.user(out, "Slice"); s != nil {
		out, nodes = s.Output(0), append(nodes, si)
	}
	s, si := b.user(out, "Squeeze")
	if s == nil || !b.sized(s.Output(0)) {
		return nil, onnxload.NoValue, nil
	}
	if d := b.dims(out); len(d) == 0 || d[len(d)-1] != 1 || len(b.dims(s.Output(0))) != len(d)-1 {
		return nil, onnxload.NoValue, nil
	}
	return dims, s.Output(0), append(nodes, si)
}

// unnamed reports whether a value is one that torch.export's exporter made between the nodes of a call.
func (b *recovery) unnamed(id onnxload.ValueID) bool {
	return strings.HasPrefix(b.m.NameOf(id), "val_")
}

// unscaled returns what a value between the nodes of a call is a multiple of, by a number, and the node; otherwise the
// value.
func (b *recovery) unscaled(id onnxload.ValueID) (onnxload.ValueID, []int) {
	for _, op := range []string{"Mul", "Div"} {
		if s, si := b.producedBy(id, op); s != nil && b.single(id) && b.unnamed(id) && b.isHostNumber(b.in(s, 1)) {
			return b.in(s, 0), []int{si}
		}
	}
	return id, nil
}

// madeComplex returns the real tensor that a complex one is made of by zeros beside it, NoValue for others, and the
// nodes that nothing else reads.
func (b *recovery) madeComplex(x onnxload.ValueID) (real onnxload.ValueID, members []int) {
	cat, ci := b.producedBy(x, "Concat")
	if cat == nil || len(cat.In) != 2 || !b.sized(x) {
		return onnxload.NoValue, nil
	}
	u, ui := b.producedBy(b.in(cat, 0), "Unsqueeze")
	zeros, zi := b.producedBy(b.in(cat, 1), "Expand")
	if u == nil || zeros == nil || !b.isNumber(b.in(zeros, 0), 0) || !b.sized(b.in(u, 0)) {
		return onnxload.NoValue, nil
	}
	shape := b.dims(x)
	if last := len(shape) - 1; last < 1 || shape[last] != 2 || !slices.Equal(shape[:last], b.dims(b.in(u, 0))) {
		return onnxload.NoValue, nil
	}
	if b.single(x) {
		if members = append(members, ci); b.single(cat.Output(0)) && b.single(b.in(cat, 1)) {
			members = append(members, zi)
		}
		if b.single(b.in(cat, 0)) {
			members = append(members, ui)
		}
	}
	return b.in(u, 0), members
}

// matchComplexMul finds a product of complex tensors, which torch.export's exporter writes out by real and imaginary
// parts (aten_mul_complex in onnxscript/function_libs/torch_lib/ops/core.py). A real factor is given zeros for it,
// which PyTorch's kernel does as it reads; in rows of one number beside the others' two it is as large as it is.
func matchComplexMul(b *recovery, i int) {
	cat, out := b.nodes[i], b.nodes[i].Output(0)
	if len(cat.In) != 2 || !b.sized(out) || b.axis(cat, 0, len(b.dims(out))) != len(b.dims(out))-1 {
		return
	}
	members := []int{i}
	sum := func(id onnxload.ValueID, op string) (m [4]onnxload.ValueID, ok bool) {
		s, si := b.producedBy(id, op)
		if s == nil || !b.single(id) || !b.unnamed(id) {
			return m, false
		}
		members = append(members, si)
		for j := range 2 {
			p, pi := b.producedBy(b.in(s, j), "Mul")
			if p == nil || !b.single(b.in(s, j)) {
				return m, false
			}
			members = append(members, pi)
			m[2*j], m[2*j+1] = b.in(p, 0), b.in(p, 1)
		}
		return m, true
	}
	re, ok := sum(b.in(cat, 0), "Sub")   // ac - bd
	im, also := sum(b.in(cat, 1), "Add") // ad + bc
	if !ok || !also || re != [4]onnxload.ValueID{im[0], im[3], im[2], im[1]} {
		return
	}
	x, xs, ok := b.halves(re[0], re[2])
	y, ys, also := b.halves(re[1], re[3])
	if !ok || !also {
		return
	}
	b.claim(func() { b.call("mul", program.Args{}, []program.ValueID{x(), y()}, out) }, slices.Concat(members, xs, ys)...)
}

// halves returns how to emit the complex tensor that has these real and imaginary parts, and the nodes that only take
// it apart. A weight that the default export has taken apart is put together.
func (b *recovery) halves(re, im onnxload.ValueID) (emit func() program.ValueID, members []int, ok bool) {
	if !b.sized(re) || !b.sized(im) || !slices.Equal(b.dims(re), b.dims(im)) {
		return nil, nil, false
	}
	rank := len(b.dims(re))
	if rank == 0 || b.dims(re)[rank-1] != 1 {
		return nil, nil, false
	}
	r, ri := b.producedBy(re, "Slice")
	m, mi := b.producedBy(im, "Slice")
	if r == nil && m == nil && b.ofModule(b.id(re)) && b.ofModule(b.id(im)) {
		shape := slices.Clone(b.dims(re))
		shape[rank-1] = 2
		return func() program.ValueID {
			return b.temp("cat", program.Args{Dim: rank - 1}, b.elem(re), shape, b.value(re), b.value(im))
		}, nil, true
	}
	if r == nil || m == nil || b.in(r, 0) != b.in(m, 0) || !b.isNumber(b.in(r, 1), 0) || !b.isNumber(b.in(m, 1), 1) {
		return nil, nil, false
	}
	whole := b.in(r, 0)
	if d := b.dims(whole); !b.sized(whole) || len(d) != rank || d[rank-1] != 2 {
		return nil, nil, false
	}
	for k, s := range []onnxload.ValueID{re, im} {
		if len(b.usesOf(b.id(s))) == 2 && !b.out[b.id(s)] {
			members = append(members, [...]int{ri, mi}[k])
		}
	}
	if real, _ := b.madeComplex(whole); real != onnxload.NoValue {
		return func() program.ValueID {
			return b.temp("unsqueeze", program.Args{Dim: rank - 1}, b.elem(real), append(slices.Clone(b.dims(real)), 1),
				b.value(real))
		}, members, true
	}
	return func() program.ValueID { return b.value(whole) }, members, true
}
