package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var msAttentionRoom = room{"com.microsoft", []op{
	{"Attention", 1, msAttention, nil},
	{"DecoderMaskedSelfAttention", 1, msAttention, nil},
	{"QAttention", 1, qattention, nil},
	{"QOrderedAttention", 1, qorderedAttention, nil},
	{"PackedAttention", 1, packedAttention, nil},
	{"MultiHeadAttention", 1, multiHeadAttention, nil},
	{"DecoderMaskedMultiHeadAttention", 1, maskedMultiHead, nil},
	{"PackedMultiHeadAttention", 1, packedMultiHead, nil},
	{"GroupQueryAttention", 1, groupQuery, nil},
	{"SparseAttention", 1, sparseAttention, nil},
	{"PagedAttention", 1, pagedAttention, nil},
	{"LongformerAttention", 1, likeInput, nil},
	{"QOrderedLongformerAttention", 1, likeInput, nil},
	{"DecoderAttention", 1, decoderAttention, nil},
	{"LinearAttention", 1, msLinearAttention, nil},
	{"LinearAttentionGate", 1, linearAttentionGate, nil},
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
	in, ok, err := c.ranked(0, 3, 3)
	if err != nil {
		return err
	}
	if !ok {
		in = c.unknowns(3)
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

// A cache says where an operator has its past keys and values, in two inputs [B, heads, P, size].
type cache struct {
	key    int  // input; the values follow it
	shared bool // present is the buffer of past, not longer
}

// multiHeadAttention: query, key, value, bias, masks, past key and value, past length. The
// buffer is shared when the past length is given beside the past.
func multiHeadAttention(c *call) error {
	return multiHead(c, cache{key: 6, shared: c.has(6) && c.has(8)})
}

// maskedMultiHead: query, key, value, mask, bias, past key and value. All of Q, K and V may
// come as query.
func maskedMultiHead(c *call) error {
	return multiHead(c, cache{key: 5, shared: c.attrInt("past_present_share_buffer", 0) != 0})
}

// multiHead: the query is [B, S, hidden], or [B, S, heads, 3, size] with keys and values. The key
// is [B, T, hidden], [B, T, heads, 2, size] with the values, or as [B, heads, T, size] a past of
// another sequence, to which nothing is added. Outputs: Y, present key and value, QK.
func multiHead(c *call, past cache) error {
	if err := c.need(1); err != nil {
		return err
	}
	for i := range 4 {
		c.out(i, c.elem(0), Shape{})
	}
	count, err := c.needDim("num_heads")
	if err != nil {
		return err
	}
	q, ok, err := c.ranked(0, 3, 5)
	if err != nil {
		return err
	}
	if !ok {
		q = c.unknowns(3)
	}
	n, _ := count.Int()
	var size, valueSize, length Dim // of a head; of a head's values; of keys and values
	switch {
	case len(q) == 5:
		size, valueSize, length = q[4], q[4], q[1]
	case len(q) == 4:
		return fmt.Errorf("input 0 has 4 dimensions, wanted 3 or 5")
	default:
		hidden := q[2]
		if !c.has(1) { // queries, keys and values side by side
			if hidden, err = divide("the last dimension of input 0", hidden, 3); err != nil {
				return err
			}
		}
		if size, err = divide("the hidden size", hidden, n); err != nil {
			return err
		}
		valueSize, length = size, q[1]
	}
	k, okK, err := c.ranked(1, 3, 5)
	if err != nil {
		return err
	}
	crossed := false
	switch {
	case c.has(1) && !okK:
		length, valueSize = c.unknown(), c.unknown()
	case okK && len(k) == 4:
		length, crossed = k[2], true
	case okK:
		length = k[1]
	}
	if v, ok, err := c.ranked(2, 3, 4); err != nil {
		return err
	} else if ok && len(v) == 4 {
		valueSize = v[3]
	} else if ok {
		if valueSize, err = divide("the last dimension of input 2", v[2], n); err != nil {
			return err
		}
	}
	total := length
	if p, ok, err := c.ranked(past.key, 4, 4); err != nil {
		return err
	} else if ok && past.shared {
		total = p[2]
	} else if ok && !crossed {
		total = Add(p[2], length)
	} else if c.has(past.key) && !crossed {
		total = c.unknown()
	}
	c.out(0, c.elem(0), Of(q[0], q[1], Mul(count, valueSize)))
	c.out(1, c.elem(0), Of(q[0], count, total, size))
	c.out(2, c.elem(0), Of(q[0], count, total, valueSize))
	c.out(3, c.elem(0), Of(q[0], count, q[1], total))
	return nil
}

// groupQuery: query, key, value, past key and value, lengths of the sequences, the largest
// of these. Queries, keys and values may come side by side as query. The cache has the past's
// type: it may be quantized. It grows by the new keys, unless it is a window
// (attribute sliding_window_cache) or the total length is known and it is as long already.
func groupQuery(c *call) error {
	q, kv, err := sharedHeads(c)
	if err != nil {
		return err
	}
	elemK, elemV := c.elem(0), c.elem(0)
	total, known, err := c.scalar(6)
	if err != nil {
		return err
	}
	length := kv.length
	if c.has(3) {
		elemK, elemV = c.elem(3), c.elem(4)
		p, ok, err := c.ranked(3, 4, 4)
		switch {
		case err != nil:
			return err
		case !ok:
			length = c.unknown()
		default:
			kv.size = p[3] // half of a head's when two 4-bit numbers share a byte
			switch {
			case c.attrInt("sliding_window_cache", 0) != 0:
				length = p[2]
			case known:
				length = Max(p[2], total)
			default:
				length = Add(p[2], kv.length)
			}
		}
	} else if known {
		length = total
	}
	c.out(0, c.elem(0), Of(q.batch, q.length, Mul(q.count, q.size)))
	c.out(1, elemK, Of(q.batch, kv.count, length, kv.size))
	c.out(2, elemV, Of(q.batch, kv.count, length, kv.size))
	if !known {
		total = length
	}
	c.out(3, c.elem(0), Of(q.batch, q.count, q.length, total))
	return nil
}

// sharedHeads takes apart query [B, S, heads*size] with key and value, or all three side by side.
func sharedHeads(c *call) (q, kv heads, err error) {
	if err := c.need(1); err != nil {
		return q, kv, err
	}
	count, err := c.needInt("num_heads")
	if err != nil {
		return q, kv, err
	}
	countKV, err := c.needInt("kv_num_heads")
	if err != nil {
		return q, kv, err
	}
	if count <= 0 || countKV <= 0 || count > 1<<32 || countKV > 1<<32 {
		return q, kv, fmt.Errorf("attributes num_heads and kv_num_heads are %d and %d", count, countKV)
	}
	in, ok, err := c.ranked(0, 3, 3)
	if err != nil {
		return q, kv, err
	}
	if !ok {
		in = c.unknowns(3)
	}
	all := count
	if !c.has(1) {
		all += 2 * countKV
	}
	size, err := divide("the last dimension of input 0", in[2], all)
	if err != nil {
		return q, kv, err
	}
	q = heads{in[0], N(count), in[1], size}
	kv = heads{in[0], N(countKV), in[1], size}
	if k, ok, err := c.ranked(1, 3, 4); err != nil {
		return q, kv, err
	} else if ok && len(k) == 4 {
		kv.length = k[2]
	} else if ok {
		kv.length = k[1]
	} else if c.has(1) {
		kv.length = c.unknown()
	}
	return q, kv, nil
}

// sparseAttention: the cache is a buffer of its full length, updated in place.
func sparseAttention(c *call) error {
	if err := c.needEach(0, 3, 4); err != nil {
		return err
	}
	q, _, err := sharedHeads(c)
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), Of(q.batch, q.length, Mul(q.count, q.size)))
	c.set(1, c.in(3))
	c.set(2, c.in(4))
	return nil
}

// pagedAttention: query [T, heads*size], alone or with key and value; the cache is
// updated in place. Attribute v_head_size narrows the values.
func pagedAttention(c *call) error {
	if err := c.needEach(0, 3); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	c.set(1, c.in(3))
	c.set(2, c.in(4))
	count, err := c.needInt("num_heads")
	if err != nil {
		return err
	}
	countKV, err := c.needInt("kv_num_heads")
	if err != nil {
		return err
	}
	if count <= 0 || countKV <= 0 || count > 1<<32 || countKV > 1<<32 {
		return fmt.Errorf("attributes num_heads and kv_num_heads are %d and %d", count, countKV)
	}
	q, ok, err := c.ranked(0, 2, 2)
	if err != nil || !ok {
		return err
	}
	all := count
	if !c.has(1) {
		all += 2 * countKV
	}
	size, err := divide("the last dimension of input 0", q[1], all)
	if err != nil {
		return err
	}
	if v := c.attrInt("v_head_size", 0); v > 0 {
		size = N(v)
	}
	c.out(0, c.elem(0), Of(q[0], Mul(N(count), size)))
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
	q, ok, err := c.ranked(0, 3, 3)
	if err != nil {
		return err
	}
	if !ok {
		q = c.unknowns(3)
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
	if err := c.need(3); err != nil {
		return err
	}
	state := c.elem(3)
	if !c.has(3) {
		state = c.elem(0)
	}
	c.out(0, c.elem(0), Shape{})
	c.out(1, state, Shape{})
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

func linearAttentionGate(c *call) error {
	c.set(0, c.in(0))
	c.set(1, c.in(0))
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
	in, ok, err := c.ranked(0, 3, 3)
	if err != nil {
		return err
	}
	if !ok {
		in = c.unknowns(3)
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
	in, ok, err := c.ranked(0, 2, 2)
	if err != nil {
		return err
	}
	if !ok {
		in = c.unknowns(2)
	}
	offsets, ok, err := c.ranked(1, 2, 2)
	if err != nil {
		return err
	}
	if !ok {
		offsets = c.unknowns(2)
	}
	c.out(0, c.elem(0), Of(offsets[0], offsets[1], in[1]))
	return nil
}
