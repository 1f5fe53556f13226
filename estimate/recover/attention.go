package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// matchSDPA finds scaled_dot_product_attention around its softmax. The exporters scale both
// query and key by the root of the scale, which no hand-written attention does:
//
//	softmax((q*s) @ (transpose(k)*s) [+ mask]) [where not NaN] [dropout] @ v
//
// A mask that comes from positions alone is what libraries pass as is_causal when they are not traced.
func matchSDPA(b *recovery, i int) {
	soft := b.nodes[i]
	members := []int{i}
	scores := b.in(soft, 0)
	mask := onnxload.NoValue
	if add, ai := b.producedBy(scores, "Add"); add != nil {
		if mm, _ := b.producedBy(b.in(add, 0), "MatMul"); mm != nil {
			scores, mask = b.in(add, 0), b.in(add, 1)
		} else {
			scores, mask = b.in(add, 1), b.in(add, 0)
		}
		members = append(members, ai)
	}
	mm, mi := b.producedBy(scores, "MatMul")
	if mm == nil {
		return
	}
	members = append(members, mi)
	probs, drop := soft.Output(0), 0.0
	if w, wi := b.nanGuard(probs); w != nil {
		probs = w.Output(0)
		members = append(members, wi...)
	}
	if d, di := b.user(probs, "Dropout"); d != nil {
		drop = 0.5
		if x, ok := b.number(b.in(d, 1)); ok {
			drop = x
		}
		probs = d.Output(0)
		members = append(members, di)
	}
	last, li := b.user(probs, "MatMul")
	if last == nil || b.in(last, 0) != b.id(probs) {
		return
	}
	members = append(members, li)
	q, kt := b.in(mm, 0), b.in(mm, 1)
	mq, qi := b.producedBy(q, "Mul")
	mk, ki := b.producedBy(kt, "Mul")
	if mq != nil && mk != nil {
		var qok, kok bool
		q, qok = b.scaled(mq)
		kt, kok = b.scaled(mk)
		if !qok || !kok {
			return
		}
		members = append(members, qi, ki)
	} else if !strings.HasPrefix(b.m.NameOf(last.Output(0)), "scaled_dot_product_attention") {
		return // otherwise a scale of 1, by which optimizers drop the products: torch.export names what it calls
	}
	key, ks := b.untransposed(kt)
	if key == nil {
		key = b.turned(kt)
	}
	members = append(members, ks...)
	v := b.in(last, 1)
	b.claim(func() {
		args := program.Args{P: drop, Train: b.src.Train}
		in := []program.ValueID{b.value(q), program.NoValue, program.NoValue, program.NoValue}
		switch {
		case mask != onnxload.NoValue && b.fixed[b.id(mask)] && b.guess(CausalFlag):
			// Without a mask transformers also passes enable_gqa rather than
			// repeat the keys and values for each group of heads.
			args.Causal = true
			in[1], in[2] = key(), b.value(v)
		case mask != onnxload.NoValue:
			in[1], in[2], in[3] = key(), b.value(v), b.value(b.boolMask(mask))
		default:
			in[1], in[2] = key(), b.value(v)
		}
		args.Broadcast = b.headsOf(in[0]) != b.headsOf(in[1])
		if args.Causal {
			in[1], in[2] = b.unrepeated(in[1]), b.unrepeated(in[2])
		}
		b.call("sdpa", args, in, last.Output(0))
	}, members...)
}

// headsOf returns the number of heads of a query, key or value of [B, H, L, D].
func (b *recovery) headsOf(v program.ValueID) int64 {
	if s := b.prog.Values[v].Shape; len(s) == 4 {
		return s[1]
	}
	return 0
}

// scaled returns what a Mul multiplies by a number.
func (b *recovery) scaled(n *onnxload.Node) (onnxload.ValueID, bool) {
	for j := range 2 {
		if id := b.in(n, j); b.isHostNumber(id) || id != onnxload.NoValue && b.host[id] {
			return b.in(n, 1-j), true
		}
	}
	return onnxload.NoValue, false
}

// isHostNumber reports whether a value is a single number computed from shapes and constants.
func (b *recovery) isHostNumber(id onnxload.ValueID) bool {
	s, ok := b.types.Type(id).Shape.Ints()
	return ok && program.Numel(s) == 1 && b.fixed[id]
}

// untransposed returns how to emit k of transpose(k), and the nodes that go with it: a Transpose of the last two
// dimensions, the same through three dimensions (Reshape, Transpose, Reshape), or a Transpose that an optimizer
// merged with the one before it, which is then taken apart. Where the key itself was a transpose of the last two
// dimensions, the optimizer has left nothing of both.
func (b *recovery) untransposed(kt onnxload.ValueID) (func() program.ValueID, []int) {
	if t, ti := b.producedBy(kt, "Transpose"); t != nil {
		perm := attrInts(t, "perm")
		n := len(perm)
		if n < 2 || !b.single(t.Output(0)) {
			return nil, nil
		}
		x := b.in(t, 0)
		if perm[n-2] == int64(n-1) && perm[n-1] == int64(n-2) {
			return func() program.ValueID { return b.value(x) }, []int{ti}
		}
		return func() program.ValueID {
			dims := make([]int, n)
			for i, p := range perm {
				dims[i] = int(p)
			}
			dims[n-2], dims[n-1] = dims[n-1], dims[n-2]
			shape := make([]int64, n)
			for i, p := range dims {
				shape[i] = b.dims(x)[p]
			}
			return b.temp("permute", program.Args{Dims: dims}, b.elem(x), shape, b.value(x))
		}, []int{ti}
	}
	if r2, i2 := b.producedBy(kt, "Reshape"); r2 != nil {
		if t, ti := b.producedBy(b.in(r2, 0), "Transpose"); t != nil {
			if r1, i1 := b.producedBy(b.in(t, 0), "Reshape"); r1 != nil {
				x, d := b.in(r1, 0), b.dims(kt)
				n := len(d)
				if n < 2 || len(b.dims(x)) == n {
					return func() program.ValueID { return b.value(x) }, []int{i2, ti, i1}
				}
				// optimizers merge a view of keys that were repeated for their heads with the one to three dimensions
				shape := append(slices.Clone(d[:n-2]), d[n-1], d[n-2])
				return func() program.ValueID {
					return b.temp("reshape", program.Args{Shape: shape}, b.elem(x), shape, b.value(x))
				}, []int{i2, ti, i1}
			}
		}
	}
	d := b.dims(kt)
	if len(d) != 4 {
		return nil, nil
	}
	return func() program.ValueID {
		return b.temp("permute", program.Args{Dims: []int{0, 1, 3, 2}}, b.elem(kt), []int64{d[0], d[1], d[3], d[2]}, b.value(kt))
	}, nil
}

// turned returns how to emit k where an optimizer merged its transpose with the one before it to none: k is a
// transpose of what is left.
func (b *recovery) turned(kt onnxload.ValueID) func() program.ValueID {
	shape := slices.Clone(b.dims(kt))
	n := len(shape)
	dims := make([]int, n)
	for i := range dims {
		dims[i] = i
	}
	if n < 2 {
		return func() program.ValueID { return b.value(kt) }
	}
	dims[n-2], dims[n-1] = n-1, n-2
	shape[n-2], shape[n-1] = shape[n-1], shape[n-2]
	return func() program.ValueID {
		return b.temp("permute", program.Args{Dims: dims}, b.elem(kt), shape, b.value(kt))
	}
}

// nanGuard finds where(isnan(p), 0, p) behind a softmax.
func (b *recovery) nanGuard(p onnxload.ValueID) (*onnxload.Node, []int) {
	var nan, where *onnxload.Node
	var ni, wi int
	b.users(p, "IsNaN", func(n *onnxload.Node, i int) { nan, ni = n, i })
	b.users(p, "Where", func(n *onnxload.Node, i int) { where, wi = n, i })
	if b.id(p) == onnxload.NoValue || nan == nil || where == nil || b.in(where, 0) != b.id(nan.Output(0)) ||
		len(b.usesOf(b.id(p))) != 2 {
		return nil, nil
	}
	return where, []int{ni, wi}
}

// boolMask returns the boolean mask that where(mask, 0, -inf) was made from, or the mask itself.
func (b *recovery) boolMask(mask onnxload.ValueID) onnxload.ValueID {
	if w, _ := b.producer(mask); w != nil && w.Op == "Where" && b.elem(b.in(w, 0)) == program.Bool &&
		b.isHostNumber(b.in(w, 1)) && b.isHostNumber(b.in(w, 2)) {
		return b.in(w, 0)
	}
	return mask
}

// unrepeated returns what a value repeats for each group of heads: the reshape of an expand of an
// unsqueeze of it.
func (b *recovery) unrepeated(v program.ValueID) program.ValueID {
	x := v
	for _, op := range []string{"reshape", "expand", "reshape"} {
		c := b.callOf(x)
		if c == nil || c.Op != op {
			return v
		}
		x = c.In[0]
	}
	from, to := b.prog.Values[x].Shape, b.prog.Values[v].Shape
	if len(from) == 4 && len(to) == 4 && from[1] < to[1] && from[0] == to[0] && from[2] == to[2] && from[3] == to[3] {
		return x
	}
	return v
}

// callOf returns the call that makes a value of the program so far.
func (b *recovery) callOf(v program.ValueID) *program.Call {
	if int(v) >= len(b.calls) || b.calls[v] == 0 {
		return nil
	}
	return &b.prog.Calls[b.calls[v]-1]
}
