package shape

import "github.com/memestimate/memestimate/onnxload"

var convFamily = family{"", []op{
	{"Conv", 1, conv, nil},
	{"ConvTranspose", 1, convTranspose, nil},
	{"ConvInteger", 10, convInteger, nil},
	{"QLinearConv", 10, qlinearConv, nil},
	{"DeformConv", 19, conv, nil}, // offsets and mask have the output's size, they do not decide it
	{"Col2Im", 18, col2im, nil},
}}

func conv(c *call) {
	c.need(2)
	c.out(0, c.elem(0), convShape(c, 0, 1))
}

func convInteger(c *call) {
	c.need(2)
	c.out(0, onnxload.Int32, convShape(c, 0, 1))
}

// qlinearConv: the inputs are x, its scale and zero point, w, its scale and zero
// point, then y's, whose type the output has.
func qlinearConv(c *call) {
	c.need(8)
	c.out(0, c.elem(7), convShape(c, 0, 3))
}

// convShape returns the output shape of a convolution of input x [N, C, spatial...]
// with the filters w [M, C/group, kernel...]: [N, M, spatial...].
func convShape(c *call, x, w int) Shape {
	in, filter, ok := c.sameRank(x, w, "filters have")
	if !ok {
		return Shape{}
	}
	group := c.positiveInt("group", 1)
	checked(agree("the number of input channels", in[1], Mul(filter[1], N(group))))
	checked(divide("the number of output channels", filter[0], group))
	window := c.filterWindow(filter[2:])
	spatial := checked(window.slide(in[2:], false))
	return Of(append([]Dim{in[0], filter[0]}, spatial...)...)
}

// sameRank returns the dimensions of input x and of another, which has as many, those of one that has none given as
// unknown; ok is false where neither has any.
func (c *call) sameRank(x, other int, otherHas string) (in, more []Dim, ok bool) {
	in, okX := c.ranked(x, 3, anyRank)
	more, okOther := c.ranked(other, 3, anyRank)
	switch {
	case !okX:
		in = unknowns(len(more))
	case !okOther:
		more = unknowns(len(in))
	}
	if len(in) != len(more) {
		c.fail("the input has %d dimensions and the %s %d", len(in), otherHas, len(more))
	}
	return in, more, okX || okOther
}

// filterWindow returns the window of a convolution with a kernel of these
// sizes, which the attribute kernel_shape may say again.
func (c *call) filterWindow(kernel []Dim) window {
	said, ok := c.kernelShape(len(kernel))
	if ok {
		for i := range said {
			checked(agree("the kernel size", said[i], kernel[i]))
		}
		kernel = said
	}
	return c.window(kernel)
}

// convTranspose: filters are [C, M/group, kernel...]. The attribute output_shape
// wins over everything else; ONNX Runtime reads its last numbers, for files in
// which it covers batch and channels as well.
func convTranspose(c *call) {
	elem := c.elem(0)
	c.needEach(0, 1)
	c.out(0, elem, Shape{})
	group := c.positiveInt("group", 1)
	in, filter, ok := c.sameRank(0, 1, "filters have")
	if !ok {
		return
	}
	channels := checked(agree("the number of input channels", in[1], filter[0]))
	checked(divide("the number of input channels", channels, group))
	n := len(in) - 2
	window := c.filterWindow(filter[2:])
	adjust := c.perAxis("output_padding", n, 0, 0)
	out := []Dim{in[0], Mul(filter[1], N(group))}
	if want, ok := c.attrInts("output_shape"); ok && len(want) > 0 {
		if len(want) != n && len(want) != n+2 {
			c.fail("attribute output_shape has %d numbers, wanted %d", len(want), n)
		}
		for _, v := range want[len(want)-n:] {
			if v < 0 {
				c.fail("attribute output_shape has the negative size %d", v)
			}
			out = append(out, N(v))
		}
		c.out(0, elem, Of(out...))
		return
	}
	for i, d := range in[2:] {
		d := checked(window.spread(i, d, adjust[i]))
		out = append(out, d)
	}
	c.out(0, elem, Of(out...))
}

// col2im: the input is [N, C * product of the block, L], the sizes of image and
// block are inputs.
func col2im(c *call) {
	c.need(3)
	c.out(0, c.elem(0), Shape{})
	in := c.ofRank(0, 3, 3)
	image, okImage := c.sizes(1)
	block, okBlock := c.sizes(2)
	channels := unknownSize
	if okBlock {
		area := Product(block...)
		if n, isInt := area.Int(); isInt {
			channels = checked(divide("the second dimension", in[1], n))
		} else {
			channels = FloorDiv(in[1], area)
		}
	}
	switch {
	case okImage && okBlock && len(image) != len(block):
		c.fail("the image has %d dimensions and the block has %d", len(image), len(block))
	case !okImage && okBlock:
		image = unknowns(len(block))
	case !okImage:
		return
	}
	for _, name := range []string{"dilations", "strides"} {
		c.perAxis(name, len(image), 1, 1)
	}
	c.out(0, c.elem(0), Of(append([]Dim{in[0], channels}, image...)...))
}
