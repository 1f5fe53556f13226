package kernels

// nativeAttention is _native_multi_head_attention(query, key, value, embed_dim, num_head, qkv_weight, qkv_bias,
// proj_weight, proj_bias, mask, need_weights, average_attn_weights, ...), in inference
// (transformers/cuda/attention.cu).
func (k *Kernels) nativeAttention(c *Call) {
	x := c.tensor(0)
	weights := averaged
	switch {
	case len(c.Args) > 10 && !c.flag(10):
		weights = noWeights
	case len(c.Args) > 11 && !c.flag(11):
		weights = eachHead
	}
	k.selfAttention(x, c.int(4), c.tensor(9) != nil, weights, func() int {
		k.makes(0)
		return -1
	})
}

// weightsMade says what an attention gives of its probabilities.
type weightsMade uint8

const (
	noWeights weightsMade = iota
	averaged              // their mean over the heads
	eachHead              // themselves
)

// selfAttention is the attention of a layer in inference; result allocates what it returns, and is called in its
// place. Without a mask and without weights to return a fused kernel works on parts of the packed projection; else the
// projection is taken apart with its bias, and scores, the mask as booleans for every sample and head, probabilities
// and the heads side by side are tensors of their own. Without a mask the probabilities are written over the scores
// (masked_softmax of transformers/attention.cpp). They stay where weights are returned, which are they themselves or
// their mean over the heads, made last.
func (k *Kernels) selfAttention(x *Tensor, heads int64, masked bool, weights weightsMade, result func() int) int {
	heads = max(heads, 1)
	packed := k.take(saturate(3, x.Bytes()))
	if !masked && weights == noWeights && x.size(-1)/heads%8 == 0 {
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
	var scores []int
	probabilities := func() {
		if weights == eachHead {
			k.makes(1)
			return
		}
		scores = append(scores, k.take(saturate(each, x.Elem)))
	}
	if masked {
		before, mask := k.take(saturate(each, x.Elem)), k.take(each)
		probabilities()
		k.give(before, mask)
	} else {
		probabilities()
	}
	if weights == noWeights {
		k.give(scores...)
	}
	rows := k.take(x.Bytes())
	n := result()
	k.useBLAS(true)
	k.give(rows)
	if weights == averaged {
		k.makes(1)
		k.give(scores...)
	}
	k.give(parts)
	return n
}

// encoderLayer is _transformer_encoder_layer_fwd(src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight,
// proj_bias, use_gelu, norm_first, eps, norm weights and biases, ffn_weight_1, ...), the fast path of
// nn.TransformerEncoderLayer in inference (transformers/transformer.cpp). Sums are in place.
func (k *Kernels) encoderLayer(c *Call) {
	x, wide := c.tensor(0), c.tensor(14)
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
	attended := k.selfAttention(x, c.int(2), c.tensor(18) != nil, noWeights, tensor)
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
