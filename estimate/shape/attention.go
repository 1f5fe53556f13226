package shape

import (
	"fmt"
)

var attentionFamily = family{"", []op{
	{"Attention", 23, attention, nil},
	{"RotaryEmbedding", 23, rotaryEmbedding, nil},
}}

// heads is a query, key or value tensor taken apart.
type heads struct{ batch, count, length, size Dim }

// headsOf returns input i as heads: [batch, heads, length, size], or [batch,
// length, heads*size] whose number of heads the attribute says.
func headsOf(c *call, i int, attr string) (heads, bool, error) {
	in, ok, err := c.ranked(i, 3, 4)
	if err != nil || !ok {
		return heads{}, false, err
	}
	if len(in) == 4 {
		return heads{in[0], in[1], in[2], in[3]}, true, nil
	}
	n, err := c.needInt(attr)
	if err != nil {
		return heads{}, false, err
	}
	size, err := divide(fmt.Sprintf("the last dimension of input %d", i), in[2], n)
	return heads{in[0], N(n), in[1], size}, true, err
}

// threeHeads returns the inputs 0 to 2, queries, keys and values, as heads, and whether all are known.
func threeHeads(c *call) (q, k, v heads, ok bool, err error) {
	var all [3]heads
	ok = true
	for i, attr := range []string{"q_num_heads", "kv_num_heads", "kv_num_heads"} {
		known := false
		if all[i], known, err = headsOf(c, i, attr); err != nil {
			return q, k, v, false, err
		}
		ok = ok && known
	}
	return all[0], all[1], all[2], ok, nil
}

// attention: Q, K, V, mask, past key, past value -> Y, present key, present value, QK.
// Keys and values with fewer heads than queries are shared by groups of these.
// Present is past with the new keys behind; without a past it is the keys alone.
func attention(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	c.out(1, c.elem(1), Shape{})
	c.out(2, c.elem(2), Shape{})
	c.out(3, c.elem(0), Shape{})
	q, k, v, ok, err := threeHeads(c)
	if err != nil || !ok {
		return err
	}
	if q.size, err = agree("the head size of queries and keys", q.size, k.size); err != nil {
		return err
	}
	if k.count, err = agree("the number of heads of keys and values", k.count, v.count); err != nil {
		return err
	}
	if k.length, err = agree("the length of keys and values", k.length, v.length); err != nil {
		return err
	}
	if q.batch, err = agreeAll("the batch size", q.batch, k.batch, v.batch); err != nil {
		return err
	}
	if n, ok := k.count.Int(); ok {
		if _, err := divide("the number of query heads", q.count, n); err != nil {
			return err
		}
	}
	total := k.length
	past, okPast, err := c.ranked(4, 4, 4)
	if err != nil {
		return err
	}
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
	return nil
}

// rotaryEmbedding: the input is [batch, heads, length, size], or [batch, length,
// heads*size] with the attribute num_heads.
func rotaryEmbedding(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.set(0, c.in(0))
	_, _, err := headsOf(c, 0, "num_heads")
	return err
}
