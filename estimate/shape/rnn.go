package shape

var rnnFamily = family{"", []op{
	{"RNN", 1, rnn, nil},
	{"GRU", 1, rnn, nil},
	{"LSTM", 1, rnn, nil},
}}

// rnn: R is [directions, gates*hidden, hidden], so its last dimension is the hidden size when the attribute is missing.
// With attribute layout 0 X is [sequence, batch, input], Y is [sequence, directions, batch, hidden] and the last states
// are [directions, batch, hidden]; with 1 the batch comes first.
func rnn(c *call) {
	c.need(3)
	hidden := unknownSize
	if r, ok := c.ranked(2, 3, 3); ok {
		hidden = r[2]
	}
	directions := N(1)
	switch d := c.attrStr("direction", "forward"); d {
	case "forward", "reverse":
	case "bidirectional":
		directions = N(2)
	default:
		c.fail("attribute direction is %q, wanted forward, reverse or bidirectional", d)
	}
	if c.node.Attr("hidden_size") != nil {
		n := c.positiveInt("hidden_size", 0)
		hidden = checked(agree("the hidden size", N(n), hidden))
	}
	if w, ok := c.ranked(1, 3, 3); ok {
		checked(agree("the number of directions", directions, w[0]))
	}
	x := c.ofRank(0, 3, 3)
	y, state := Of(x[0], directions, x[1], hidden), Of(directions, x[1], hidden)
	if c.attrInt("layout", 0) != 0 {
		y, state = Of(x[0], x[1], directions, hidden), Of(x[0], directions, hidden)
	}
	c.out(0, c.elem(0), y)
	c.out(1, c.elem(0), state)
	c.out(2, c.elem(0), state)
}
