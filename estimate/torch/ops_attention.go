package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// attentionOps is scaled_dot_product_attention(query, key, value, mask): [B, H, L, D] each.
var attentionOps = []op{
	{"sdpa", castLower, runSDPA}, // aten/src/ATen/native/transformers/cuda
	{"native_attention", castNone, runNativeAttention},
	{"attention_end", castNone, runAttentionEnd},
}

func runSDPA(r *run, c *program.Call, in []*tensor) []*tensor {
	q, k, v := in[0], in[1], in[2]
	var mask *tensor
	if len(in) > 3 && in[3] != nil && !in[3].host {
		mask = in[3]
	}
	p := 0.0
	if c.Args.Train {
		p = c.Args.P
	}
	if len(q.shape) != 4 {
		return one(r.mathSDPA(c, q, k, v, mask, p)) // check_tensor_shapes: the kernels take four dimensions
	}
	shape := attentionShape(q, k, v)
	shape.Broadcast = c.Args.Broadcast
	if mask != nil {
		shape.Mask, shape.MaskTrained = true, r.needsGrad(mask)
	}
	for _, t := range []*tensor{q, k, v, mask} {
		shape.Strided = shape.Strided || t != nil && t.stride[len(t.stride)-1] != 1
	}
	shape.Trained = r.needsGrad(q, k, v, mask)
	b := shape.Backend(*r.opts.GPU)
	if b == kernels.MathAttention {
		return one(r.mathSDPA(c, q, k, v, mask, p))
	}
	if d := q.shape[3]; b == kernels.FlashAttention && d%8 != 0 {
		return one(r.paddedFlash(q, k, v))
	}
	return one(r.fusedSDPA(b, q, k, v, mask))
}

// fusedSDPA runs one of the fused kernels.
func (r *run) fusedSDPA(b kernels.AttentionBackend, q, k, v, mask *tensor) *tensor {
	bias := mask
	if mask != nil && mask.dtype == program.Bool { // convert_boolean_attn_mask: where(mask, 0, -inf)
		zero, inf := r.empty(q.dtype), r.empty(q.dtype)
		bias = r.strided(q.dtype, mask.shape, kernels.RowMajor(mask.shape))
		r.release(inf)
		r.release(zero)
		defer r.release(bias)
	}
	grad := r.needsGrad(q, k, v, mask)
	batch, heads, rows, vd := q.shape[0], q.shape[1], q.shape[2], v.shape[3]
	var kept []*tensor
	var out *tensor
	switch b {
	case kernels.EfficientAttention:
		if bias != nil {
			if last := bias.shape[len(bias.shape)-1]; last%efficientAlign != 0 { // pad_bias
				shape := append(slices.Clone(bias.shape[:len(bias.shape)-1]), roundUp(last, efficientAlign))
				bias = r.strided(bias.dtype, shape, kernels.RowMajor(shape))
				defer r.release(bias)
			}
		}
		// [B, L, H, D] in memory, seen as [B, H, L, D]
		out = r.strided(q.dtype, []int64{batch, heads, rows, vd}, []int64{rows * heads * vd, vd, heads * vd, 1})
		if grad {
			kept = append(kept, r.empty(program.Float32, batch, heads, roundUp(rows, 32)))
		}
	case kernels.CuDNNAttention:
		seed, offset := r.empty(program.Int64), r.empty(program.Int64)
		out = r.strided(q.dtype, []int64{batch, heads, rows, vd}, iteratorStrides([]int64{batch, heads, rows, vd}, q))
		if grad {
			kept = append(kept, r.empty(program.Float32, batch, heads, rows, 1))
		}
		kept = append(kept, seed, offset)
		r.dnn[r.thread()] = true
		r.play(attentionShape(q, k, v).Forward(b), nil)
	case kernels.FlashAttention:
		out = r.strided(q.dtype, []int64{batch, heads, rows, vd}, []int64{rows * heads * vd, vd, heads * vd, 1})
		kept = append(kept, r.empty(program.Float32, batch, heads, rows))
		rng := r.empty(program.Int64, 2)
		unused := r.empty(program.Int64)
		kept = append(kept, rng, unused)
	}
	if grad {
		saved := []*tensor{bias, k, q, v} // then log-sum-exp, output, seed and offset
		if len(kept) > 0 {
			saved = append(append(saved, kept[0], out), kept[1:]...)
		}
		qc, kc, vc := *q, *k, *v
		r.record("ScaledDotProductAttention", one(out), []*tensor{q, k, v, mask}, saved,
			func(r *run, n *node, g []*tensor) []*tensor {
				return r.sdpaBackward(b, n.wants(3), g[0], &qc, &kc, &vc)
			})
	}
	for _, t := range kept {
		r.release(t)
	}
	return out
}

// paddedFlash pads heads to a multiple of eight for flash attention and cuts its result to size, both of which
// autograd sees (pad_last_dim and post_process_flash_output in transformers/attention.cpp).
func (r *run) paddedFlash(q, k, v *tensor) *tensor {
	parts := make([]*tensor, 3)
	for i, t := range []*tensor{q, k, v} {
		shape := append(slices.Clone(t.shape[:3]), roundUp(t.shape[3], 8))
		parts[i] = resampling("ConstantPadNd", keepsNothing)(r, &program.Call{Args: &program.Args{Shape: shape}}, one(t))[0]
	}
	padded := r.fusedSDPA(kernels.FlashAttention, parts[0], parts[1], parts[2], nil)
	out := r.slice(padded, 3, v.shape[3], 1)
	r.release(padded)
	for _, t := range parts {
		r.release(t)
	}
	return out
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// sdpaBackward allocates the gradients of query, key and value, that of a mask that is trained, and what
// the kernel needs.
func (r *run) sdpaBackward(b kernels.AttentionBackend, trained bool, g, q, k, v *tensor) []*tensor {
	outs := make([]*tensor, 4)
	a := attentionShape(q, k, v)
	a.MaskTrained = trained
	like, copied := func(t *tensor) *tensor { return r.emptyLike(t, t.dtype) }, int64(0)
	switch b {
	case kernels.EfficientAttention:
		headsInside := func(ls *layouts, s []int64) *layout { // of [B, H, L, D] that lies as [B, L, H, D]
			return ls.at(s, []int64{s[1] * s[2] * s[3], s[3], s[1] * s[3], 1})
		}
		like = func(t *tensor) *tensor { return r.laid(t.dtype, headsInside(&r.layouts, t.shape)) }
		copied = copiedBytes(g, headsInside, r)
	case kernels.CuDNNAttention:
		r.dnn[r.thread()] = true
	}
	r.play(a.Backward(b, copied), func(i int) {
		if i < 3 {
			outs[i] = like([]*tensor{q, k, v}[i])
			return
		}
		// Rows of a multiple of 16, of which the mask's columns are a slice.
		rows := r.empty(q.dtype, a.Batch, a.Heads, a.Queries, roundUp(a.Keys, 16))
		outs[i] = r.alias(rows, []int64{a.Batch, a.Heads, a.Queries, a.Keys}, rows.stride)
		r.release(rows)
	})
	return outs
}

// attentionShape describes attention of these queries, keys and values, without a mask.
func attentionShape(q, k, v *tensor) kernels.AttentionShape {
	return kernels.AttentionShape{Batch: q.shape[0], Heads: q.shape[1], KeyHeads: k.shape[1], Queries: q.shape[2],
		Keys: k.shape[2],
		Dim:  q.shape[3], ValueDim: v.shape[3], Elem: q.dtype.Bits() / 8, Float16: q.dtype == program.Float16}
}

// mathSDPA is _scaled_dot_product_attention_math: query and key are each scaled by the root of the
// scale, grouped heads repeated, and the probabilities kept by softmax. It returns them too, in the type of the query,
// so that they outlive its variables; its caller drops them (aten/src/ATen/native/transformers/attention.cpp).
func (r *run) mathSDPA(c *program.Call, q, k, v, mask *tensor, p float64) *tensor {
	call, n := program.PlainCall, len(q.shape)
	var drop []*tensor
	hold := func(t *tensor) *tensor { drop = append(drop, t); return t }
	from := q.dtype
	// Unless allow_fp16_bf16_reduction_math_sdp, which is off.
	if from.Bits() == 16 {
		q, k, v = hold(r.to(q, program.Float32)), hold(r.to(k, program.Float32)), hold(r.to(v, program.Float32))
	}
	sq := hold(runMul(r, call, []*tensor{q, scalar(program.Float32)})[0])
	if c.Args.Causal && mask == nil {
		mask = hold(r.causalMask(q.dtype, q.shape[n-2], k.shape[n-2]))
	}
	if n == 4 && q.shape[1] != k.shape[1] && !c.Args.Broadcast {
		k, v = hold(r.repeatHeads(k, q.shape[1])), hold(r.repeatHeads(v, q.shape[1]))
	}
	kt := hold(r.transpose(k, n-2, n-1))
	sk := runMul(r, call, []*tensor{kt, scalar(program.Float32)})[0]
	scores := r.matmul(sq, sk)
	r.release(sk) // a temporary of the expression
	if mask != nil {
		inplace := !r.needsGrad(mask)
		s := runAdd(r, &program.Call{Args: &program.Args{Inplace: inplace}}, []*tensor{scores, mask})[0]
		r.release(scores)
		scores = s
	}
	probs := r.softmax("SafeSoftmax", scores, scores.dtype)
	// _safe_softmax looks for rows that are masked whole.
	masked := r.pointwise(program.Bool, scores)
	rows := r.empty(program.Bool, append(append([]int64{}, scores.shape[:n-1]...), 1)...)
	zero := r.empty(q.dtype)
	for _, t := range []*tensor{zero, rows, masked, scores} {
		r.release(t)
	}
	if p > 0 {
		d := runDropout(r, &program.Call{Args: &program.Args{Train: true, P: p}}, one(probs))[0]
		r.release(probs)
		probs = d
	}
	returned := r.to(probs, from) // make_tuple's arguments, which gcc works out from the last
	out := r.matmul(probs, v)
	back := r.to(out, from)
	r.release(out)
	r.release(probs)
	for _, t := range slices.Backward(drop) {
		r.release(t)
	}
	r.release(returned)
	return back
}

// causalMask is what the math kernel adds to causal scores: ones, tril of them, and 0 or -inf from that.
func (r *run) causalMask(dtype program.DType, queries, keys int64) *tensor {
	full := r.empty(program.Bool, queries, keys)
	tri := r.empty(program.Bool, queries, keys)
	r.release(full)
	zero, inf := r.empty(dtype), r.empty(dtype)
	mask := r.empty(dtype, queries, keys)
	for _, t := range []*tensor{inf, zero, tri} {
		r.release(t)
	}
	return mask
}

// repeatHeads is repeat_interleave over the heads.
func (r *run) repeatHeads(t *tensor, heads int64) *tensor {
	s := t.shape
	u := r.unsqueeze(t, 2)
	e := r.expand(u, []int64{s[0], s[1], heads / s[1], s[2], s[3]})
	out := r.reshape(e, []int64{s[0], heads, s[2], s[3]})
	r.release(u)
	r.release(e)
	return out
}

// efficientAlign is what the memory-efficient kernel wants a mask's last dimension
// to be a multiple of (aten/src/ATen/native/transformers/attention.cpp pad_bias).
const efficientAlign = 8

// runNativeAttention is _native_multi_head_attention(x, packed weight, packed bias, output weight, output bias, mask)
// of Args.Groups heads, in inference: the projection, its parts with the bias, the scores, the mask as booleans for
// every sample and head, the probabilities, which without a mask are written over the scores, the heads side by side,
// and the result. The product of probabilities and values is written over the queries. Args.Mode says of which weights
// it returns: none, their mean over the heads, or each head's (native_multi_head_attention_cuda in
// aten/src/ATen/native/transformers/cuda/attention.cu).
func runNativeAttention(r *run, c *program.Call, in []*tensor) []*tensor {
	x := in[0]
	b, l, e := x.shape[0], x.shape[1], x.shape[2]
	wt := r.transpose(in[1], 0, 1)
	packed := r.matmul(x, wt)
	parts := r.empty(x.dtype, 3, b, l, e)
	r.release(packed)
	probs := r.empty(x.dtype, b, c.Args.Groups, l, l)
	if len(in) > 5 && in[5] != nil {
		scores := probs
		masked := r.empty(program.Bool, b, c.Args.Groups, l, l)
		probs = r.empty(x.dtype, b, c.Args.Groups, l, l)
		r.releaseAll([]*tensor{scores, masked})
	}
	if c.Args.Mode == "" {
		r.release(probs)
	}
	rows := r.empty(x.dtype, b*l, e)
	outs := []*tensor{r.empty(x.dtype, b, l, e)}
	r.useBLAS(true)
	r.release(rows)
	switch c.Args.Mode {
	case "averaged":
		outs = append(outs, r.reduce(probs, []int{1}, false, x.dtype))
		r.release(probs)
	case "heads":
		outs = append(outs, probs)
	}
	r.releaseAll([]*tensor{parts, wt})
	return outs
}

// runAttentionEnd is the end of F.multi_head_attention_forward, which holds its arguments until then: with Args.Mode
// "averaged" the mean of the weights, its last argument, over Args.Groups heads.
func runAttentionEnd(r *run, c *program.Call, in []*tensor) []*tensor {
	if c.Args.Mode == "" {
		return nil
	}
	s := in[4].shape
	view := r.reshape(in[4], []int64{s[0] / c.Args.Groups, c.Args.Groups, s[1], s[2]})
	out := r.mean(view, []int{1}, false)
	r.release(view)
	return one(out)
}
