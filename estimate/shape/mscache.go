package shape

import "fmt"

// msCacheFamily has attention on separate queries, keys and values that keeps the past
// keys and values.
var msCacheFamily = family{"com.microsoft", []op{
	{"MultiHeadAttention", 1, multiHeadAttention, nil},
	{"DecoderMaskedMultiHeadAttention", 1, maskedMultiHead, nil},
	{"GroupQueryAttention", 1, groupQuery, nil},
	{"SparseAttention", 1, sparseAttention, nil},
	{"PagedAttention", 1, pagedAttention, nil},
}}

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
	size, err := headSize(c, q, n)
	if err != nil {
		return err
	}
	valueSize, length := size, q[1] // of keys and values, where they come with the queries
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

// headSize returns the size of each of n heads of queries.
func headSize(c *call, q []Dim, n int64) (Dim, error) {
	switch {
	case len(q) == 5:
		return q[4], nil
	case len(q) == 4:
		return Dim{}, fmt.Errorf("input 0 has 4 dimensions, wanted 3 or 5")
	case c.has(1):
		return divide("the hidden size", q[2], n)
	}
	hidden, err := divide("the last dimension of input 0", q[2], 3) // queries, keys and values side by side
	if err != nil {
		return Dim{}, err
	}
	return divide("the hidden size", hidden, n)
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
	if !c.has(1) && c.attrStr("kv_cache_layout", "SEPARATE") != "LATENT" { // one latent row is keys and values
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
