package recover

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/estimate/recover/dialect"
	"github.com/memestimate/memestimate/onnxload"
)

// matchLinearAttention finds the attention without a softmax of EfficientViT, q @ (k^T @ v) divided by its last
// column: v has a column of ones more, so that column holds the sums that a softmax would divide by. They outgrow 16
// bits, so it is computed in float32 and outside of autocast (LiteMLA in timm/models/efficientvit_mit.py):
//
//	q, k, v = q.float(), k.float(), v.float()
//	out = q @ (k.transpose(-1, -2) @ v)
//	out = out[..., :-1] / (out[..., -1:] + eps)
//	return out.to(dtype)
//
// Of a model in float32 torch.export drops the casts; TorchScript keeps them, in both directions the same.
func matchLinearAttention(b *recovery, i int) {
	div := b.nodes[i]
	whole, _ := b.columns(b.in(div, 0))
	eps, _ := b.producedBy(b.in(div, 1), "Add")
	if eps == nil {
		return
	}
	sums, _ := b.otherThanNumber(eps)
	if w, last := b.columns(sums); w != whole || !last {
		return
	}
	product, pi := b.producedBy(whole, "MatMul")
	if product == nil {
		return
	}
	inner, mi := b.producedBy(b.in(product, 1), "MatMul")
	if inner == nil || !b.single(inner.Output(0)) {
		return
	}
	turn, ti := b.producedBy(b.in(inner, 0), "Transpose")
	if turn == nil || !b.single(turn.Output(0)) {
		return
	}
	members := []int{ti, mi}
	plain := func(id onnxload.ValueID) onnxload.ValueID {
		if c, ci := b.upcast(id); c != nil && b.single(id) {
			members = append(members, ci)
			return b.in(c, 0)
		}
		return id
	}
	q, k, v := plain(b.in(product, 0)), plain(b.in(turn, 0)), plain(b.in(inner, 1))
	if pad, _ := b.producedBy(v, "Pad"); pad == nil || !b.isNumber(b.in(pad, 2), 1) {
		return
	}
	out, ends := div.Output(0), []int{i}
	if c, ci := b.user(out, "Cast"); c != nil && b.elem(c.Output(0)) == program.Float32 {
		out, ends = c.Output(0), append(ends, ci)
	}
	if !b.sized(k) || !b.sized(q) || !b.sized(v) {
		return
	}
	rank := len(b.dims(k))
	perm := attrInts(turn, "perm")
	if rank < 2 || len(perm) != rank || !slices.IsSorted(perm[:rank-2]) || perm[rank-1] != int64(rank-2) {
		return
	}
	f := program.Float32
	var qf program.ValueID
	if !b.guess(dialect.LinearAttention) {
		return
	}
	b.claim(func() {
		qf = b.temp("float", program.Args{}, f, b.dims(q), b.value(q))
		kf := b.temp("float", program.Args{}, f, b.dims(k), b.value(k))
		vf := b.temp("float", program.Args{}, f, b.dims(v), b.value(v))
		dims := make([]int, rank)
		for d, p := range perm {
			dims[d] = int(p)
		}
		kt := b.temp("permute", program.Args{Dims: dims}, f, b.dims(turn.Output(0)), kf)
		b.call("matmul_float", program.Args{}, []program.ValueID{kt, vf}, inner.Output(0))
	}, members...)
	b.claim(func() {
		b.call("matmul_float", program.Args{}, []program.ValueID{qf, b.value(inner.Output(0))}, product.Output(0))
	}, pi)
	b.claim(func() {
		quotient := b.temp("div", program.Args{}, f, b.dims(out), b.values(div)...)
		b.call("type_as", program.Args{}, []program.ValueID{quotient, b.value(v)}, out)
	}, ends...)
}

// columns returns the tensor that a value is a slice of by its last dimension, and whether it is the last column alone;
// NoValue for others.
func (b *recovery) columns(id onnxload.ValueID) (whole onnxload.ValueID, last bool) {
	s, _ := b.producedBy(id, "Slice")
	if s == nil {
		return onnxload.NoValue, false
	}
	if whole = b.in(s, 0); !b.sized(whole) || !b.sized(id) {
		return onnxload.NoValue, false
	}
	in, out := b.dims(whole), b.dims(id)
	n := len(in)
	if n == 0 || len(out) != n || !slices.Equal(in[:n-1], out[:n-1]) || in[n-1] == out[n-1] {
		return onnxload.NoValue, false
	}
	from, ok := b.number(b.in(s, 1))
	return whole, ok && out[n-1] == 1 && (from == -1 || from == float64(in[n-1]-1))
}
