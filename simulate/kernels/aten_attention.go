package kernels

// atenAttention are the fused kernels of scaled_dot_product_attention (aten/src/ATen/native/transformers/cuda).
var atenAttention = []operator{
	{"_scaled_dot_product_efficient_attention", (*Kernels).efficientAttention},
	{"_scaled_dot_product_flash_attention", (*Kernels).flashAttention},
	{"_scaled_dot_product_cudnn_attention", on((*Kernels).cudnnAttention, 0, 1, 2)},
	{"_scaled_dot_product_efficient_attention_backward", on(attentionBackward(EfficientAttention), 0, 1, 2, 3)},
	{"_scaled_dot_product_flash_attention_backward", on(attentionBackward(FlashAttention), 0, 1, 2, 3)},
	{"_scaled_dot_product_cudnn_attention_backward", on(attentionBackward(CuDNNAttention), 0, 1, 2, 3)},
	{"_native_multi_head_attention", on((*Kernels).nativeAttention, 0)},
	{"_transformer_encoder_layer_fwd", on((*Kernels).encoderLayer, 0, 14)},
	{"_fused_sdp_choice", nil},
}

// attentionShape describes query, key and value, [B, H, L, D] each.
func attentionShape(q, key, v *Tensor) AttentionShape {
	return AttentionShape{
		Batch: q.size(0), Heads: q.size(1), KeyHeads: key.size(1), Queries: q.size(2), Keys: key.size(2),
		Dim: q.size(3), ValueDim: v.size(3), Elem: q.Elem,
	}
}

// efficientAttention returns output, logsumexp, and the philox seed and offset, which stay on the CPU unless a graph
// is captured.
func (k *Kernels) efficientAttention(c *Call) {
	k.makes(0, 1)
	k.leaves(2, 3)
}

// flashAttention returns output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, rng_state, unused and debug_attn_mask.
func (k *Kernels) flashAttention(c *Call) { k.makes(0, 1, 6, 7, 8) }

// cudnnAttention returns output, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, philox_seed, philox_offset and
// debug_attn_mask.
func (k *Kernels) cudnnAttention(c *Call) {
	q, key, v := c.tensor(0), c.tensor(1), c.tensor(2)
	k.makes(6, 7, 0, 1, 8)
	k.dnnOn[k.thread] = true
	k.play(attentionShape(q, key, v).Forward(CuDNNAttention))
}

// attentionBackward is ..._backward(grad_out, query, key, value, ...).
func attentionBackward(b AttentionBackend) func(k *Kernels, c *Call) {
	return func(k *Kernels, c *Call) {
		a := attentionShape(c.tensor(1), c.tensor(2), c.tensor(3))
		a.MaskTrained = b == EfficientAttention && c.has(3)
		if b == CuDNNAttention {
			k.dnnOn[k.thread] = true
		}
		k.play(a.Backward(b, c.tensor(0).copied(headsInside)))
	}
}

// headsInside is [B, H, L, D] that lies as [B, L, H, D].
func headsInside(s []int64) []int64 {
	if len(s) != 4 {
		return RowMajor(s)
	}
	return []int64{saturate(s[1], s[2], s[3]), s[3], saturate(s[1], s[3]), 1}
}
