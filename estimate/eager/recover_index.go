package eager

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// matchIndex finds x[:, index] with one tensor of places, which torch.export writes with GatherND: it turns the dimension that is
// indexed to the front, spreads the places to their own shape and puts them in a last dimension, and turns the result back
// (aten_index in onnxscript/function_libs/torch_lib/ops/core.py). PyTorch does none of that: at::index makes the result
// as it is asked for, row by row, which what reads it depends on.
func matchIndex(b *recovery, i int) {
	n := b.nodes[i]
	if attrInt(n, "batch_dims", 0) != 0 {
		return
	}
	places, members := b.spreadIndex(b.in(n, 1))
	if places == onnxload.NoValue {
		return
	}
	x, dim, out := b.in(n, 0), 0, n.Out[0]
	members = append(members, i)
	if t, ti := b.producedBy(x, "Transpose"); t != nil && b.single(x) {
		perm := attrInts(t, "perm")
		back, bi := b.user(out, "Transpose")
		if back == nil || len(perm) == 0 {
			return
		}
		dim = int(perm[0])
		// The others keep their order, and the way back puts the places' dimensions where the indexed one was.
		rank := len(b.dims(places))
		all := sequence(int64(rank + len(perm) - 1))
		if dim < 0 || dim >= len(perm) || !slices.IsSorted(perm[1:]) ||
			!slices.Equal(attrInts(back, "perm"), slices.Concat(all[rank:rank+dim], all[:rank], all[rank+dim:])) {
			return
		}
		x, out = b.in(t, 0), back.Out[0]
		members = append(members, ti, bi)
	}
	b.claim(func() {
		b.call("index", Args{Dim: dim, Shape: b.dims(out)}, []ValueID{b.value(x), b.device(b.value(places), places)}, out)
	}, members...)
}

// spreadIndex returns the only tensor of places that a GatherND's indices were made of, and the nodes that made them.
func (b *recovery) spreadIndex(id onnxload.ValueID) (places onnxload.ValueID, members []int) {
	for _, op := range []string{"Concat", "Unsqueeze", "Expand"} {
		n, i := b.producedBy(id, op)
		if n == nil || !b.single(id) || op == "Concat" && len(n.In) != 1 {
			return onnxload.NoValue, nil
		}
		if d := b.dims(id); op == "Unsqueeze" && (len(d) == 0 || d[len(d)-1] != 1) || op == "Expand" && !slices.Equal(d, b.dims(b.in(n, 0))) {
			return onnxload.NoValue, nil
		}
		members = append(members, i)
		id = b.in(n, 0)
	}
	return id, members
}

// sequence returns 0 to n-1.
func sequence(n int64) (s []int64) {
	for i := range n {
		s = append(s, i)
	}
	return s
}
