package fromonnx

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
	"github.com/memestimate/memestimate/onnxload"
)

// matchFFT finds torch.fft.fft, fft2 and fftn of a real tensor, which torch.export writes as one DFT a dimension, of
// the tensor with a last dimension of it and of zeros (aten__fft_c2c in
// onnxscript/function_libs/torch_lib/ops/fft.py). PyTorch casts to complex numbers and transforms all dimensions in
// one call.
func matchFFT(b *recovery, i int) {
	whole := func(n *onnxload.Node) bool {
		return attrInt(n, "onesided", 0) == 0 && b.sized(b.in(n, 0)) && b.sized(n.Output(0)) &&
			slices.Equal(b.dims(b.in(n, 0)), b.dims(n.Output(0)))
	}
	n := b.nodes[i]
	cat, ci := b.producedBy(b.in(n, 0), "Concat")
	if cat == nil || len(cat.In) != 2 || !b.single(cat.Output(0)) || !whole(n) {
		return
	}
	real, ri := b.producedBy(b.in(cat, 0), "Unsqueeze")
	zeros, zi := b.producedBy(b.in(cat, 1), "Expand")
	if real == nil || zeros == nil || !b.single(zeros.Output(0)) || !b.isNumber(b.in(zeros, 0), 0) {
		return
	}
	members, x := []int{ci, zi, i}, b.in(real, 0)
	if !b.sized(x) {
		return
	}
	shape := b.dims(cat.Output(0))
	if last := len(shape) - 1; last < 1 || shape[last] != 2 || !slices.Equal(shape[:last], b.dims(x)) {
		return
	}
	if b.single(real.Output(0)) {
		members = append(members, ri)
	}
	out := n.Output(0)
	for {
		next, ni := b.user(out, "DFT")
		if next == nil || b.in(next, 0) != b.id(out) || !whole(next) {
			break
		}
		out, members = next.Output(0), append(members, ni)
	}
	b.claim(func() {
		v := b.temp("to_complex", aten.Args{}, b.elem(out), shape, b.value(x))
		b.call("fft", aten.Args{}, []aten.ValueID{v}, out)
	}, members...)
}
