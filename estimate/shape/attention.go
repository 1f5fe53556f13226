package shape

import "fmt"

var attentionFamily = family{"", []op{
	{"Attention", 23, attention, nil},
	{"RotaryEmbedding", 23, rotaryEmbedding, nil},
}}

// heads is a query, key or value tensor taken apart.
type heads struct{ batch, count, length, size Dim }

// headsOf returns input i as heads: [batch, heads, length, size], or [batch,
// length, heads*size] whose number of heads the attribute says.
func headsOf(c *call, i int, attr string) (heads, bool) {
	in, ok := c.ranked(i, 3, 4)
	if !ok {
		return heads{}, false
	}
	if len(in) == 4 {
		return heads{in[0], in[1], in[2], in[3]}, true
	}
	n := c.needInt(attr)
	size := checked(divide(fmt.Sprintf("the last dimension of input %d", i), in[2], n))
	return heads{in[0], N(n), in[1], size}, true
}

// threeHeads returns the inputs 0 to 2, queries, keys and values, as heads, and whether all are known.
func threeHeads(c *call) (q, k, v heads, ok bool) {
	var all [3]heads
	ok = true
	for i, attr := range []string{"q_num_heads", "kv_num_heads", "kv_num_heads"} {
		known := false
		all[i], known = headsOf(c, i, attr)
		ok = ok && known
	}
	return all[0], all[1], all[2], ok
}

// attention: Q, K, V, mask, past key, past value -> Y, present key, present value, QK.
// Keys and values with fewer heads than queries are shared by groups of these.
// Present is past with the new keys behind; without a past it is the keys alone.
func attention(c *call) {
	c.need(3)
	c.out(0, c.elem(0), Shape{})
	c.out(1, c.elem(1), Shape{})
	c.out(2, c.elem(2), Shape{})
	c.out(3, c.elem(0), Shape{})
	q, k, v, ok := threeHeads(c)
	if !ok {
		return
	}
	q.size = checked(agree("the head size of queries and keys", q.size, k.size))
	k.count = checked(agree("the number of heads of keys and values", k.count, v.count))
	k.length = checked(agree("the length of keys and values", k.length, v.length))
	q.batch = checked(agreeAll("the batch size", q.batch, k.batch, v.batch))
	if n, ok := k.count.Int(); ok {
		checked(divide("the number of query heads", q.count, n))
	}
	total := k.length
	past, okPast := c.ranked(4, 4, 4)
	if c.has(4) && !okPast {
		total = unknownSize
	} else if okPast {
		total = Add(past[2], total)
	}
	if in, ok := c.dims(0); ok && len(in) == 3 {
		c.out(0, c.elem(0), Of(q.batch, q.length, Mul(q.count, v.size)))
	} else {
		c.out(0, c.elem(0), Of(q.batch, q.count, q.length, v.size))
	}
	c.out(1, c.elem(1), Of(q.batch, k.count, total, k.size))
	c.out(2, c.elem(2), Of(q.batch, k.count, total, v.size))
	c.out(3, c.elem(0), Of(q.batch, q.count, q.length, total))
}

// rotaryEmbedding: the input is [batch, heads, length, size], or [batch, length,
// heads*size] with the attribute num_heads.
func rotaryEmbedding(c *call) {
	c.need(3)
	c.set(0, c.in(0))
	headsOf(c, 0, "num_heads")
}
