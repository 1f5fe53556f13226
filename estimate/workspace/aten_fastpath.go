package workspace

// nativeAttention is _native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
// proj_weight, proj_bias, mask, need_weights, ...), in inference (transformers/cuda/attention.cu).
func (k *Kernels) nativeAttention(c *Call) {
	x := c.tensor(0)
	if x == nil {
		return
	}
	weights := len(c.Args) <= 10 || c.flag(10)
	k.selfAttention(x, c.int(4), c.tensor(9) != nil, weights, func() int {
		k.makes(0)
		return -1
	})
}

// selfAttention is the attention of a layer in inference; result allocates what it returns, and is called in its
// place. Without a mask and without weights to return a fused kernel works on parts of the packed projection; else the
// projection is taken apart with its bias, and scores, the mask as booleans for every sample and head, probabilities
// and the heads side by side are tensors of their own.
func (k *Kernels) selfAttention(x *Tensor, heads int64, masked, weights bool, result func() int) int {
	heads = max(heads, 1)
	packed := k.take(saturate(3, x.Bytes()))
	if !masked && !weights && x.size(-1)/heads%8 == 0 {
		k.useBLAS(true)
		out := k.take(x.Bytes())
		n := result()
		k.give(out, packed)
		return n
	}
	k.useBLAS(false)
	parts := k.take(saturate(3, x.Bytes()))
	k.give(packed)
	each := saturate(x.size(0), heads, x.size(1), x.size(1))
	hold := []int{k.take(saturate(each, x.Elem))}
	if masked {
		hold = append(hold, k.take(each))
	}
	hold = append(hold, k.take(saturate(each, x.Elem)))
	k.give(hold...)
	rows := k.take(x.Bytes())
	n := result()
	k.useBLAS(true)
	k.give(rows, parts)
	return n
}

// encoderLayer is _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
// proj_bias, use_gelu, norm_first, eps, norm weights and biases, ffn_weight_1, ...), the fast path of
// nn.TransformerEncoderLayer in inference (transformers/transformer.cpp). Sums are in place.
func (k *Kernels) encoderLayer(c *Call) {
	x, wide := c.tensor(0), c.tensor(14)
	if x == nil || wide == nil {
		return
	}
	rows := saturate(x.size(0), x.size(1))
	tensor := func() int { return k.take(x.Bytes()) }
	statistics := func() {
		mean, deviation := k.take(saturate(rows, 4)), k.take(saturate(rows, 4))
		k.give(mean, deviation)
	}
	norm := func() int {
		out := tensor()
		statistics()
		return out
	}
	first := c.flag(8)
	var before []int
	if first {
		before = append(before, norm())
	}
	attended := k.selfAttention(x, c.int(2), c.tensor(18) != nil, false, tensor)
	k.give(before...)
	kept := attended // what the feed-forward part is added to
	var input []int
	if first {
		input = append(input, norm())
	} else {
		kept = norm()
		k.give(attended)
	}
	hidden := k.take(saturate(rows, wide.size(0), x.Elem))
	if first {
		k.makes(0)
		k.give(hidden)
		k.give(input...)
		k.give(kept)
		return
	}
	out := tensor()
	k.give(hidden)
	k.makes(0)
	statistics()
	k.give(out, kept)
}
