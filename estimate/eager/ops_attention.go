package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/onnxload"
)

// attentionOps is scaled_dot_product_attention(query, key, value, mask): [B, H, L, D] each.
var attentionOps = []op{
	{"sdpa", castLower, runSDPA}, // aten/src/ATen/native/transformers/cuda
	{"native_attention", castNone, runNativeAttention},
}

// An attention backend, in the order in which sdp_utils.cpp tries them on an H200.
type backend uint8

const (
	cudnnAttention backend = iota
	flashAttention
	efficientAttention
	mathAttention
)

// sdpaBackend chooses as sdp::select_sdp_backend does on compute capability 9.0 with cuDNN 9.19:
// cuDNN's kernel takes 16-bit heads of up to 256 in eights, with any dropout (measured
// with 160 and 256, and with 0.1); flash attention takes no mask; float32 goes to the
// memory-efficient kernel, which wants heads in fours and equal numbers of heads, and is the
// only one with a gradient for the mask.
func sdpaBackend(q, k, mask *tensor, trained bool) backend {
	d := q.shape[len(q.shape)-1]
	grouped := q.shape[1] != k.shape[1]
	half := q.dtype.Bits() == 16
	switch {
	case half && d%8 == 0 && d <= 256 && k.shape[2] > 1 && !trained:
		return cudnnAttention
	case half && d <= 256 && mask == nil:
		return flashAttention
	case !grouped && (half && d%8 == 0 || !half && d%4 == 0):
		return efficientAttention
	}
	return mathAttention
}

func runSDPA(r *run, c *Call, in []*tensor) []*tensor {
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
	b := sdpaBackend(q, k, mask, r.needsGrad(mask))
	if c.Args.Broadcast {
		b = mathAttention // check_batch_size_and_num_heads_dense: only enable_gqa allows fewer heads of the key
	}
	if mask != nil && mask.stride[len(mask.stride)-1] != 1 {
		b = mathAttention // check_last_dim_stride_equals_1_dense: a table of biases with the heads moved to the front
	}
	if b == mathAttention {
		return one(r.mathSDPA(c, q, k, v, mask, p))
	}
	if d := q.shape[3]; b == flashAttention && d%8 != 0 {
		return one(r.paddedFlash(q, k, v))
	}
	return one(r.fusedSDPA(b, q, k, v, mask))
}

// fusedSDPA runs one of the fused kernels.
func (r *run) fusedSDPA(b backend, q, k, v, mask *tensor) *tensor {
	bias := mask
	if mask != nil && mask.dtype == onnxload.Bool { // convert_boolean_attn_mask: where(mask, 0, -inf)
		zero, inf := r.empty(q.dtype), r.empty(q.dtype)
		bias = r.strided(q.dtype, mask.shape, contiguousStrides(mask.shape))
		r.release(inf)
		r.release(zero)
		defer r.release(bias)
	}
	grad := r.needsGrad(q, k, v, mask)
	batch, heads, rows, vd := q.shape[0], q.shape[1], q.shape[2], v.shape[3]
	var kept []*tensor
	var out *tensor
	switch b {
	case efficientAttention:
		if bias != nil {
			if last := bias.shape[len(bias.shape)-1]; last%efficientAlign != 0 { // pad_bias
				shape := append(slices.Clone(bias.shape[:len(bias.shape)-1]), roundUp(last, efficientAlign))
				bias = r.strided(bias.dtype, shape, contiguousStrides(shape))
				defer r.release(bias)
			}
		}
		// [B, L, H, D] in memory, seen as [B, H, L, D]
		out = r.strided(q.dtype, []int64{batch, heads, rows, vd}, []int64{rows * heads * vd, vd, heads * vd, 1})
		if grad {
			kept = append(kept, r.empty(onnxload.Float32, batch, heads, roundUp(rows, 32)))
		}
	case cudnnAttention:
		seed, offset := r.empty(onnxload.Int64), r.empty(onnxload.Int64)
		out = r.strided(q.dtype, []int64{batch, heads, rows, vd}, iteratorStrides([]int64{batch, heads, rows, vd}, q))
		if grad {
			kept = append(kept, r.empty(onnxload.Float32, batch, heads, rows, 1))
		}
		kept = append(kept, seed, offset)
		r.dnn[r.thread()] = true
		r.scratch(256, timeline.Workspace)
	case flashAttention:
		out = r.strided(q.dtype, []int64{batch, heads, rows, vd}, []int64{rows * heads * vd, vd, heads * vd, 1})
		kept = append(kept, r.empty(onnxload.Float32, batch, heads, rows))
		rng := r.empty(onnxload.Int64, 2)
		unused := r.empty(onnxload.Int64)
		kept = append(kept, rng, unused)
	}
	if grad {
		saved := []*tensor{bias, k, q, v} // then log-sum-exp, output, seed and offset
		if len(kept) > 0 {
			saved = append(append(saved, kept[0], out), kept[1:]...)
		}
		qc, kc, vc, oc := *q, *k, *v, *out
		r.record("ScaledDotProductAttention", one(out), []*tensor{q, k, v, mask}, saved, func(r *run, n *node, g []*tensor) []*tensor {
			return r.sdpaBackward(b, n.wants(3), g[0], &qc, &kc, &vc, &oc)
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
		parts[i] = resampling("ConstantPadNd", keepsNothing)(r, &Call{Args: &Args{Shape: shape}}, one(t))[0]
	}
	padded := r.fusedSDPA(flashAttention, parts[0], parts[1], parts[2], nil)
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
func (r *run) sdpaBackward(b backend, trained bool, g, q, k, v, out *tensor) []*tensor {
	batch, heads, rows, d := q.shape[0], q.shape[1], q.shape[2], q.shape[3]
	var dq, dk, dv, bias *tensor
	switch b {
	case efficientAttention:
		headsInside := func(ls *layouts, s []int64) *layout { // of [B, H, L, D] that lies as [B, L, H, D]
			return ls.at(s, []int64{s[1] * s[2] * s[3], s[3], s[1] * s[3], 1})
		}
		like := func(t *tensor) *tensor { return r.laid(t.dtype, headsInside(&r.layouts, t.shape)) }
		gi := r.inLayout(g, headsInside)
		defer r.release(gi)
		dq, dk, dv = like(q), like(k), like(v)
		if trained { // rows of a multiple of 16, of which the mask's columns are a slice
			rows16 := r.empty(q.dtype, batch, heads, rows, roundUp(k.shape[2], 16))
			bias = r.alias(rows16, []int64{batch, heads, rows, k.shape[2]}, rows16.stride)
			r.release(rows16)
		}
		var wide []*tensor // the gradient and the output in float32
		if out.dtype != onnxload.Float32 {
			wide = []*tensor{r.emptyLike(out, onnxload.Float32), r.emptyLike(gi, onnxload.Float32)}
		}
		product := r.pointwise(onnxload.Float32, gi, out)
		delta := r.empty(onnxload.Float32, batch, rows, heads)
		if heads > 1 && rows > 1 { // delta is wanted as [B, H, L]
			sum := delta
			delta = r.empty(onnxload.Float32, batch, heads, rows)
			r.release(sum)
		}
		r.release(product)
		for _, t := range wide {
			r.release(t)
		}
		scratch := r.alloc(efficientWorkspace(batch*heads, rows, max(d, v.shape[3])), timeline.Workspace)
		r.release(delta)
		r.drop(scratch)
	case cudnnAttention:
		dq, dk, dv = r.emptyLike(q, q.dtype), r.emptyLike(k, k.dtype), r.emptyLike(v, v.dtype)
		r.dnn[r.thread()] = true
		ws := cudnnAttentionWorkspace(batch*heads, rows, d)
		if k.shape[1] != heads { // the plan first makes the gradients of all heads
			ws += batch * heads * k.shape[2] * (d + v.shape[3]) * q.dtype.Bits() / 8
		}
		r.scratch(ws, timeline.Workspace)
	case flashAttention:
		dq, dk, dv = r.emptyLike(q, q.dtype), r.emptyLike(k, k.dtype), r.emptyLike(v, v.dtype)
		sum := r.empty(onnxload.Float32, batch, heads, roundUp(rows, 128))
		acc := r.empty(onnxload.Float32, batch, roundUp(rows, 128), heads, roundUp(d, 32))
		r.release(acc)
		r.release(sum)
	}
	return []*tensor{dq, dk, dv, bias}
}

// mathSDPA is _scaled_dot_product_attention_math: query and key are each scaled by the root of the
// scale, grouped heads repeated, and the probabilities kept by softmax.
func (r *run) mathSDPA(c *Call, q, k, v, mask *tensor, p float64) *tensor {
	call, n := plainCall, len(q.shape)
	var drop []*tensor
	hold := func(t *tensor) *tensor { drop = append(drop, t); return t }
	from := q.dtype
	if from.Bits() == 16 { // unless allow_fp16_bf16_reduction_math_sdp, which is off
		q, k, v = hold(r.to(q, onnxload.Float32)), hold(r.to(k, onnxload.Float32)), hold(r.to(v, onnxload.Float32))
	}
	sq := hold(runMul(r, call, []*tensor{q, scalar(onnxload.Float32)})[0])
	if c.Args.Causal && mask == nil { // ones, tril of them, and 0 or -inf from that
		l, s := q.shape[n-2], k.shape[n-2]
		full := r.empty(onnxload.Bool, l, s)
		tri := r.empty(onnxload.Bool, l, s)
		r.release(full)
		zero, inf := r.empty(q.dtype), r.empty(q.dtype)
		mask = hold(r.empty(q.dtype, l, s))
		r.release(inf)
		r.release(zero)
		r.release(tri)
	}
	if n == 4 && q.shape[1] != k.shape[1] && !c.Args.Broadcast {
		k, v = hold(r.repeatHeads(k, q.shape[1])), hold(r.repeatHeads(v, q.shape[1]))
	}
	kt := hold(r.transpose(k, n-2, n-1))
	sk := runMul(r, call, []*tensor{kt, scalar(onnxload.Float32)})[0]
	scores := r.matmul(sq, sk)
	r.release(sk) // a temporary of the expression
	if mask != nil {
		inplace := !r.needsGrad(mask)
		s := runAdd(r, &Call{Args: &Args{Inplace: inplace}}, []*tensor{scores, mask})[0]
		r.release(scores)
		scores = s
	}
	probs := r.softmax("SafeSoftmax", scores, scores.dtype)
	// _safe_softmax looks for rows that are masked whole.
	masked := r.pointwise(onnxload.Bool, scores)
	rows := r.empty(onnxload.Bool, append(append([]int64{}, scores.shape[:n-1]...), 1)...)
	zero := r.empty(q.dtype)
	for _, t := range []*tensor{zero, rows, masked, scores} {
		r.release(t)
	}
	if p > 0 {
		d := runDropout(r, &Call{Args: &Args{Train: true, P: p}}, one(probs))[0]
		r.release(probs)
		probs = d
	}
	out := r.matmul(probs, v)
	r.release(probs)
	for _, t := range drop {
		r.release(t)
	}
	back := r.to(out, from)
	r.release(out)
	return back
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

// efficientWorkspace returns the bytes that the memory-efficient backward pass
// accumulates the queries' gradients in, for so many heads of all images, queries and elements
// of a head: float32 tiles of 64 columns, in blocks of 64 rows, of 128 for heads
// wider than 64, and 16 bytes of locks a tile (workspace_elements_gq and GradQTempStorage in
// aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernel_backward.h). Exact in the 260 cases measured in
// float32.
func efficientWorkspace(heads, queries, d int64) int64 {
	block := int64(64)
	if d > 64 {
		block = 128
	}
	rows, columns := roundUp(queries, block), ceilDiv(d, 64)
	return heads * columns * (rows*64*4 + rows/block*16)
}

// cudnnAttentionWorkspace returns the workspace of cuDNN's attention backward pass
// for so many heads of all images and queries: the gradient of the queries and a sum
// for each query, in float32. Exact in the 260 cases measured in bfloat16.
func cudnnAttentionWorkspace(heads, queries, d int64) int64 {
	return heads*queries*(4*d+4) + 256
}

// runNativeAttention is _native_multi_head_attention(x, packed weight, packed bias, output weight, output bias) of
// Args.Groups heads with a mask, in inference: the projection, its parts with the bias, the scores, the mask as booleans
// for every sample and head, the probabilities, the heads side by side, and the result. The product of probabilities and
// values is written over the queries (native_multi_head_attention_cuda in aten/src/ATen/native/transformers/cuda/attention.cu).
func runNativeAttention(r *run, c *Call, in []*tensor) []*tensor {
	x := in[0]
	b, l, e := x.shape[0], x.shape[1], x.shape[2]
	wt := r.transpose(in[1], 0, 1)
	packed := r.matmul(x, wt)
	parts := r.empty(x.dtype, 3, b, l, e)
	r.release(packed)
	scores := r.empty(x.dtype, b, c.Args.Groups, l, l)
	masked := r.empty(onnxload.Bool, b, c.Args.Groups, l, l)
	probs := r.empty(x.dtype, b, c.Args.Groups, l, l)
	r.releaseAll([]*tensor{scores, masked, probs})
	rows := r.empty(x.dtype, b*l, e)
	out := r.empty(x.dtype, b, l, e)
	r.useBLAS(true)
	r.releaseAll([]*tensor{rows, parts, wt})
	return one(out)
}
