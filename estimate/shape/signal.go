package shape

var signalFamily = family{"", []op{
	{"DFT", 17, dft17, nil},
	{"DFT", 20, dft20, nil}, // the axis becomes an input
	{"STFT", 17, stft, nil},
}}

func dft17(c *call) {
	c.need(1)
	dft(c, N(c.attrInt("axis", 1)))
}

func dft20(c *call) {
	c.need(1)
	at := N(-2)
	if c.has(2) {
		v, ok := c.scalar(2)
		if at = v; !ok {
			at = unknownSize
		}
	}
	dft(c, at)
}

// dft: the last dimension is 1 for real and 2 for complex numbers. Attribute onesided
// keeps half of a real signal's spectrum, n/2+1 of n; with inverse it makes the
// 2*(n-1) real numbers again unless dft_length says otherwise.
func dft(c *call, along Dim) {
	c.out(0, c.elem(0), Shape{})
	in, ok := c.ranked(0, 2, anyRank)
	if !ok {
		return
	}
	onesided, inverse := c.attrInt("onesided", 0) != 0, c.attrInt("inverse", 0) != 0
	last := len(in) - 1
	out := append([]Dim(nil), in...)
	out[last] = N(2)
	if onesided && inverse {
		out[last] = N(1)
	}
	if want := int64(2); onesided {
		if !inverse {
			want = 1
		}
		checked(agree("the last dimension", in[last], N(want)))
	}
	a, known := along.Int()
	if !known {
		if onesided || c.has(1) { // any of the axes may change
			copy(out[:last], unknowns(last))
		}
		c.out(0, c.elem(0), Of(out...))
		return
	}
	at := checked(axis(a, len(in)))
	if at == last {
		c.fail("axis %d holds the complex numbers", a)
	}
	length := in[at]
	if c.has(1) {
		length = c.size(1, 1)
	} else if onesided && inverse {
		length = Mul(N(2), Sub(length, N(1)))
	}
	if onesided && !inverse {
		length = spectrum(length)
	}
	out[at] = length
	c.out(0, c.elem(0), Of(out...))
}

// spectrum is how many different bins the transform of n real numbers has.
func spectrum(n Dim) Dim { return Add(FloorDiv(n, N(2)), N(1)) }

// stft: signal [batch, length, 1 or 2], frame step, window, frame length ->
// [batch, frames, bins, 2]. A frame is as long as the window unless its length is given.
func stft(c *call) {
	c.need(2)
	c.out(0, c.elem(0), Shape{})
	in := c.ofRank(0, 2, 3)
	step := c.size(1, 1)
	length := unknownSize
	if c.has(3) {
		length = c.size(3, 1)
	}
	if w, ok := c.ranked(2, 1, 1); ok {
		length = checked(agree("the frame length", length, w[0]))
	}
	room := Sub(in[1], length)
	if n, ok := room.Int(); ok && n < 0 {
		c.fail("a frame of %s is longer than the signal of %s", length, in[1])
	}
	bins := length
	if c.attrInt("onesided", 1) != 0 {
		bins = spectrum(length)
	}
	c.out(0, c.elem(0), Of(in[0], Add(FloorDiv(room, step), N(1)), bins, N(2)))
}
