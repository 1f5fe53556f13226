package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var msAttentionFamily = family{"com.microsoft", []op{
	{"Attention", 1, msAttention, nil},
	{"DecoderMaskedSelfAttention", 1, msAttention, nil},
	{"QAttention", 1, qattention, nil},
	{"QOrderedAttention", 1, qorderedAttention, nil},
	{"PackedAttention", 1, packedAttention, nil},
	{"PackedMultiHeadAttention", 1, packedMultiHead, nil},
	{"LongformerAttention", 1, likeInput, nil},
	{"QOrderedLongformerAttention", 1, likeInput, nil},
	{"DecoderAttention", 1, decoderAttention, nil},
	{"LinearAttention", 1, msLinearAttention, nil},
	{"LinearAttentionGate", 1, likeInputTwice, nil},
	{"RotaryEmbedding", 1, likeInput, nil}, // the number of heads may be left to the cache's width
	{"MRotaryEmbedding", 1, likeInput, nil},
	{"GemmaRotaryEmbedding", 1, gemmaRotary, nil},
	{"RelativePositionBias", 1, relativePositionBias, nil},
	{"GatedRelativePositionBias", 1, gatedPositionBias, nil},
	{"RemovePadding", 1, removePadding, nil},
	{"RestorePadding", 1, restorePadding, nil},
	{"MoE", 1, likeInput, nil},
	{"QMoE", 1, likeInput, nil},
}}

// msAttention: input [B, S, hidden], one matrix [hidden, Q + K + V] for all three, its bias,
// mask, past [2, B, heads, P, size] -> Y [B, S, V], present.
func msAttention(c *call) error { return mergedAttention(c, 4, c.elem(0)) }

// qattention: after the bias come two scales, of the type of the results, mask and zero points.
func qattention(c *call) error { return mergedAttention(c, 8, c.elem(3)) }

func mergedAttention(c *call, pastInput int, elem onnxload.DType) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.out(0, elem, Shape{})
	c.out(1, elem, Shape{})
	in, err := c.ofRank(0, 3)
	if err != nil {
		return err
	}
	count, err := c.needDim("num_heads")
	if err != nil {
		return err
	}
	hidden, err := valueSize(c, 1, 2)
	if err != nil {
		return err
	}
	c.out(0, elem, Of(in[0], in[1], hidden))
	if past, ok, err := c.ranked(pastInput, 5, 5); err != nil {
		return err
	} else if ok {
		present := append([]Dim(nil), past...)
		if c.attrInt("past_present_share_buffer", 0) == 0 {
			present[3] = Add(past[3], in[1])
		}
		c.out(1, elem, Of(present...))
		return nil
	}
	n, _ := count.Int()
	size, err := divide("the hidden size", hidden, n)
	if err != nil {
		return err
	}
	length := in[1]
	if c.has(pastInput) {
		length = c.unknown()
	}
	c.out(1, elem, Of(N(2), in[0], count, length, size))
	return nil
}

// valueSize returns the hidden size of the values: the third of attribute
// qkv_hidden_sizes, or a third of what the bias or the merged matrix has.
func valueSize(c *call, weights, bias int) (Dim, error) {
	if sizes, ok := c.attrInts("qkv_hidden_sizes"); ok && len(sizes) > 0 {
		if len(sizes) != 3 || sizes[2] <= 0 {
			return Dim{}, fmt.Errorf("attribute qkv_hidden_sizes is %v, wanted three positive numbers", sizes)
		}
		return N(sizes[2]), nil
	}
	merged := c.unknown()
	if b, ok, err := c.ranked(bias, 1, 1); err != nil {
		return merged, err
	} else if ok {
		merged = b[0]
	}
	if w, ok, err := c.ranked(weights, 2, 2); err != nil {
		return merged, err
	} else if ok {
		if merged, err = agree("the size of queries, keys and values", merged, w[1]); err != nil {
			return merged, err
		}
	}
	return divide("the size of queries, keys and values", merged, 3)
}

// qorderedAttention: separate matrices; that of the values is input 7.
func qorderedAttention(c *call) error {
	if err := c.need(8); err != nil {
		return err
	}
	hidden := c.unknown()
	if w, ok, err := c.ranked(7, 2, 2); err != nil {
		return err
	} else if ok {
		hidden = w[1]
	}
	s, err := lastDim(c, 0, hidden)
	c.out(0, c.elem(0), s)
	return err
}

// packedAttention: the tokens of all sequences without their padding, [T, hidden].
func packedAttention(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	if _, _, err := c.ranked(0, 2, 2); err != nil {
		return err
	}
	hidden, err := valueSize(c, 1, 2)
	if err != nil {
		return err
	}
	s, err := lastDim(c, 0, hidden)
	c.out(0, c.elem(0), s)
	return err
}

// packedMultiHead: query [T, hidden] with its keys and values, or all in one as [T, heads, 3, size].
func packedMultiHead(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	q, ok, err := c.ranked(0, 2, 4)
	if err != nil || !ok {
		return err
	}
	if len(q) == 4 {
		c.out(0, c.elem(0), Of(q[0], Mul(q[1], q[3])))
		return nil
	}
	hidden := q[1]
	if v, ok, err := c.ranked(2, 2, 2); err != nil {
		return err
	} else if ok {
		hidden = v[1]
	}
	c.out(0, c.elem(0), Of(q[0], hidden))
	return nil
}

// decoderAttention: query [S, B, hidden]; key and value cache are inputs 6 and 7. Whether the
// cache grows is decided by boolean inputs at run time, so its length is not known.
func decoderAttention(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.set(0, c.in(0))
	count, err := c.needDim("num_heads")
	if err != nil {
		return err
	}
	q, err := c.ofRank(0, 3)
	if err != nil {
		return err
	}
	n, _ := count.Int()
	size, err := divide("the hidden size", q[2], n)
	if err != nil {
		return err
	}
	s := Of(q[1], count, c.unknown(), size)
	c.out(1, c.elem(0), s)
	c.out(2, c.elem(0), s)
	return nil
}

// msLinearAttention: as ONNX's, but keys may have more heads than queries, and attribute
// state_window keeps that many states.
func msLinearAttention(c *call) error {
	state, err := c.recurrentState()
	if err != nil {
		return err
	}
	var parts [3]heads
	for i, attr := range []string{"q_num_heads", "kv_num_heads", "kv_num_heads"} {
		if _, _, err := c.ranked(i, 3, 3); err != nil {
			return err
		}
		h, ok, err := headsOf(c, i, attr)
		if err != nil || !ok {
			return err
		}
		parts[i] = h
	}
	q, k, v := parts[0], parts[1], parts[2]
	c.out(0, c.elem(0), Of(q.batch, q.length, Mul(Max(q.count, k.count), v.size)))
	present := []Dim{q.batch, k.count, k.size, v.size}
	if w := c.attrInt("state_window", 0); w > 0 {
		present = append([]Dim{N(w)}, present...)
	}
	c.out(1, state, Of(present...))
	return nil
}

// gemmaRotary: angles, queries, turned queries, keys, turned keys.
func gemmaRotary(c *call) error {
	if err := c.need(5); err != nil {
		return err
	}
	c.set(0, c.in(1))
	c.set(1, c.in(3))
	return nil
}

// relativePositionBias: table [buckets, heads], then the lengths of queries and keys.
func relativePositionBias(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	count := c.unknown()
	if t, ok, err := c.ranked(0, 2, 2); err != nil {
		return err
	} else if ok {
		count = t[1]
	}
	q, err := c.size(1, 0)
	if err != nil {
		return err
	}
	k, err := c.size(2, 0)
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), Of(N(1), count, q, k))
	return nil
}

// gatedPositionBias: query [B, S, hidden], or [T, hidden] with the offsets of the tokens
// [B, S] as the last input.
func gatedPositionBias(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	count, err := c.needDim("num_heads")
	if err != nil {
		return err
	}
	from := 0
	if c.has(6) {
		from = 6
	}
	in, ok, err := c.ranked(from, 2, 3)
	if err != nil {
		return err
	}
	if !ok {
		in = c.unknowns(2)
	}
	c.out(0, c.elem(0), Of(in[0], count, in[1], in[1]))
	return nil
}

// removePadding: [B, S, hidden] becomes the tokens that count, their offsets, and where
// each sequence ends.
func removePadding(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	in, err := c.ofRank(0, 3)
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), Of(c.bounded(Mul(in[0], in[1])), in[2]))
	c.out(1, c.elem(1), Of(in[0], in[1]))
	c.out(2, c.elem(1), Of(Add(in[0], N(1))))
	c.out(3, c.elem(1), Of(N(1)))
	return nil
}

// restorePadding: [T, hidden] and offsets [B, S].
func restorePadding(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	in, err := c.ofRank(0, 2)
	if err != nil {
		return err
	}
	offsets, err := c.ofRank(1, 2)
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), Of(offsets[0], offsets[1], in[1]))
	return nil
}
