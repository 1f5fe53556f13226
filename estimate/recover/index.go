package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchIndex finds x[:, index] with one tensor of places, which torch.export writes with GatherND: it turns the
// dimension that is indexed to the front, spreads the places to their own shape and puts them in a last dimension,
// and turns the result back (aten_index in onnxscript/function_libs/torch_lib/ops/core.py). PyTorch does none of
// that: at::index makes the result as it is asked for, row by row, which what reads it depends on. An optimized
// export has folded what comes from constants.
func matchIndex(b *recovery, i int) {
	n := b.nodes[i]
	if attrInt(n, "batch_dims", 0) != 0 {
		return
	}
	places, rank, members := b.spreadIndex(b.in(n, 1))
	if places == onnxload.NoValue {
		return
	}
	x, dim, out := b.in(n, 0), 0, n.Output(0)
	members = append(members, i)
	back, bi := b.user(out, "Transpose")
	t, ti := b.producedBy(x, "Transpose")
	switch {
	case t != nil && b.single(x):
		perm := attrInts(t, "perm")
		if back == nil || len(perm) == 0 {
			return
		}
		// The others keep their order, and the way back puts the places' dimensions where the indexed one was.
		if dim = int(perm[0]); dim < 0 || dim >= len(perm) || !slices.IsSorted(perm[1:]) ||
			!turnsBack(back, rank, dim, len(perm)) {
			return
		}
		x, out = b.in(t, 0), back.Output(0)
		members = append(members, ti, bi)
	case back != nil && b.sized(x) && b.made[x] < 0 && len(b.dims(x)) == 2 &&
		!strings.Contains(b.m.NameOf(x), ".") && turnsBack(back, rank, 1, 2):
		dim, out = 1, back.Output(0) // a table that folding turned, without its module's name
		members = append(members, bi)
	}
	b.claim(func() {
		b.call("index", program.Args{Dim: dim, Shape: b.dims(out)},
			[]program.ValueID{b.value(x), b.device(b.value(places), places)}, out)
	}, members...)
}

// turnsBack reports whether a Transpose moves the places' dimensions, which come first, to where that one of so many
// was that they replace.
func turnsBack(n *onnxload.Node, rank, dim, dims int) bool {
	all := sequence(int64(rank + dims - 1))
	return slices.Equal(attrInts(n, "perm"), slices.Concat(all[rank:rank+dim], all[:rank], all[rank+dim:]))
}

// spreadIndex returns the only tensor of places that a GatherND's indices were made of, how many dimensions of places
// it has, and the nodes that made them of it.
func (b *recovery) spreadIndex(id onnxload.ValueID) (places onnxload.ValueID, rank int, members []int) {
	for _, op := range []string{"Concat", "Unsqueeze", "Expand"} {
		if !b.sized(id) {
			return onnxload.NoValue, 0, nil
		}
		n, i := b.producedBy(id, op)
		d := b.dims(id)
		switch {
		case n == nil && op == "Unsqueeze": // places that were put in a last dimension when the graph was folded
			if len(d) < 2 || d[len(d)-1] != 1 || b.made[b.id(id)] >= 0 {
				return onnxload.NoValue, 0, nil
			}
			return id, len(d) - 1, members
		case n == nil:
			continue
		case !b.single(id) || op == "Concat" && len(n.In) != 1 || op == "Unsqueeze" && (len(d) == 0 || d[len(d)-1] != 1) ||
			op == "Expand" && !slices.Equal(d, b.dims(b.in(n, 0))):
			return onnxload.NoValue, 0, nil
		}
		members = append(members, i)
		id = b.in(n, 0)
	}
	if !b.sized(id) {
		return onnxload.NoValue, 0, nil
	}
	return id, len(b.dims(id)), members
}

// sequence returns 0 to n-1.
func sequence(n int64) (s []int64) {
	for i := range n {
		s = append(s, i)
	}
	return s
}
