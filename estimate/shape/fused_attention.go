package shape

// mergedAttention: input [B, S, hidden], one matrix [hidden, Q + K + V] for all three, its bias, mask, past
// [2, B, heads, P, size] -> Y [B, S, V], present.
func mergedAttention(c *call) {
	elem := c.elem(0)
	c.need(2)
	c.out(0, elem, Shape{})
	c.out(1, elem, Shape{})
	in := c.ofRank(0, 3, 3)
	count := c.needDim("num_heads")
	hidden := valueSize(c)
	c.out(0, elem, Of(in[0], in[1], hidden))
	if past, ok := c.ranked(4, 5, 5); ok {
		present := append([]Dim(nil), past...)
		if c.attrInt("past_present_share_buffer", 0) == 0 {
			present[3] = Add(past[3], in[1])
		}
		c.out(1, elem, Of(present...))
		return
	}
	n, _ := count.Int()
	size := checked(divide("the hidden size", hidden, n))
	length := in[1]
	if c.has(4) {
		length = unknownSize
	}
	c.out(1, elem, Of(N(2), in[0], count, length, size))
}

// valueSize returns the hidden size of the values: the third of attribute
// qkv_hidden_sizes, or a third of what the bias or the merged matrix has.
func valueSize(c *call) Dim {
	if sizes, ok := c.attrInts("qkv_hidden_sizes"); ok && len(sizes) > 0 {
		if len(sizes) != 3 || sizes[2] <= 0 {
			c.fail("attribute qkv_hidden_sizes is %v, wanted three positive numbers", sizes)
		}
		return N(sizes[2])
	}
	merged := unknownSize
	if b, ok := c.ranked(2, 1, 1); ok {
		merged = b[0]
	}
	if w, ok := c.ranked(1, 2, 2); ok {
		merged = checked(agree("the size of queries, keys and values", merged, w[1]))
	}
	return checked(divide("the size of queries, keys and values", merged, 3))
}

// multiHeadAttention: query, key, value, bias, masks, past key and value, past length -> Y, present key and value, QK.
// The query is [B, S, hidden], or [B, S, heads, 3, size] with keys and values. The key is [B, T, hidden],
// [B, T, heads, 2, size] with the values, or as [B, heads, T, size] a past of another sequence, to which nothing is
// added. Present is the buffer of past, not longer, where the past's length is given beside it.
func multiHeadAttention(c *call) {
	c.need(1)
	for i := range 4 {
		c.out(i, c.elem(0), Shape{})
	}
	count := c.needDim("num_heads")
	q := c.ofRank(0, 3, 5)
	n, _ := count.Int()
	size := headSize(c, q, n)
	valueSize, length := size, q[1] // of keys and values, where they come with the queries
	k, okK := c.ranked(1, 3, 5)
	crossed := false
	switch {
	case c.has(1) && !okK:
		length, valueSize = unknownSize, unknownSize
	case okK && len(k) == 4:
		length, crossed = k[2], true
	case okK:
		length = k[1]
	}
	if v, ok := c.ranked(2, 3, 4); ok && len(v) == 4 {
		valueSize = v[3]
	} else if ok {
		valueSize = checked(divide("the last dimension of input 2", v[2], n))
	}
	total := length
	if p, ok := c.ranked(6, 4, 4); ok && c.has(8) {
		total = p[2]
	} else if ok && !crossed {
		total = Add(p[2], length)
	} else if c.has(6) && !crossed {
		total = unknownSize
	}
	c.out(0, c.elem(0), Of(q[0], q[1], Mul(count, valueSize)))
	c.out(1, c.elem(0), Of(q[0], count, total, size))
	c.out(2, c.elem(0), Of(q[0], count, total, valueSize))
	c.out(3, c.elem(0), Of(q[0], count, q[1], total))
}

// headSize returns the size of each of n heads of queries.
func headSize(c *call, q []Dim, n int64) Dim {
	switch {
	case len(q) == 5:
		return q[4]
	case len(q) == 4:
		c.fail("input 0 has 4 dimensions, wanted 3 or 5")
	case c.has(1):
		return checked(divide("the hidden size", q[2], n))
	}
	hidden := checked(divide("the last dimension of input 0", q[2], 3)) // queries, keys and values side by side
	return checked(divide("the hidden size", hidden, n))
}

// groupQuery: query, key, value, past key and value, lengths of the sequences, the largest
// of these. Queries, keys and values may come side by side as query. The cache has the past's
// type: it may be quantized. It grows by the new keys, unless it is a window
// (attribute sliding_window_cache) or the total length is known and it is as long already.
func groupQuery(c *call) {
	q, kv := sharedHeads(c)
	elemK, elemV := c.elem(0), c.elem(0)
	total, known := c.scalar(6)
	length := kv.length
	if c.has(3) {
		elemK, elemV = c.elem(3), c.elem(4)
		length = unknownSize
		if p, ok := c.ranked(3, 4, 4); ok {
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
}

// sharedHeads takes apart query [B, S, heads*size] with key and value, or all three side by side.
func sharedHeads(c *call) (q, kv heads) {
	c.need(1)
	count := c.needInt("num_heads")
	countKV := c.needInt("kv_num_heads")
	if count <= 0 || countKV <= 0 || count > 1<<32 || countKV > 1<<32 {
		c.fail("attributes num_heads and kv_num_heads are %d and %d", count, countKV)
	}
	in := c.ofRank(0, 3, 3)
	all := count
	if !c.has(1) {
		all += 2 * countKV
	}
	size := checked(divide("the last dimension of input 0", in[2], all))
	q = heads{in[0], N(count), in[1], size}
	kv = heads{in[0], N(countKV), in[1], size}
	if k, ok := c.ranked(1, 3, 4); ok && len(k) == 4 {
		kv.length = k[2]
	} else if ok {
		kv.length = k[1]
	} else if c.has(1) {
		kv.length = unknownSize
	}
	return q, kv
}
