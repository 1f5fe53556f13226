package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var convFamily = family{"", []op{
	{"Conv", 1, conv, nil},
	{"ConvTranspose", 1, convTranspose, nil},
	{"ConvInteger", 10, convInteger, nil},
	{"QLinearConv", 10, qlinearConv, nil},
	{"DeformConv", 19, conv, nil}, // offsets and mask have the output's size, they do not decide it
	{"Col2Im", 18, col2im, nil},
}}

func conv(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	s, err := convShape(c, 0, 1)
	c.out(0, c.elem(0), s)
	return err
}

func convInteger(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	s, err := convShape(c, 0, 1)
	c.out(0, onnxload.Int32, s)
	return err
}

// qlinearConv: the inputs are x, its scale and zero point, w, its scale and zero
// point, then y's, whose type the output has.
func qlinearConv(c *call) error {
	if err := c.need(8); err != nil {
		return err
	}
	s, err := convShape(c, 0, 3)
	c.out(0, c.elem(7), s)
	return err
}

// convShape returns the output shape of a convolution of input x [N, C, spatial...]
// with the filters w [M, C/group, kernel...]: [N, M, spatial...].
func convShape(c *call, x, w int) (Shape, error) {
	in, okX, err := c.ranked(x, 3, anyRank)
	if err != nil {
		return Shape{}, err
	}
	filter, okW, err := c.ranked(w, 3, anyRank)
	if err != nil {
		return Shape{}, err
	}
	return convDims(c, in, okX, filter, okW)
}

func convDims(c *call, in []Dim, okX bool, filter []Dim, okW bool) (Shape, error) {
	group, err := c.positiveInt("group", 1)
	if err != nil {
		return Shape{}, err
	}
	in, filter, ok, err := c.sameRank(in, okX, filter, okW, "filters have")
	if err != nil || !ok {
		return Shape{}, err
	}
	if _, err := agree("the number of input channels", in[1], Mul(filter[1], N(group))); err != nil {
		return Shape{}, err
	}
	if _, err := divide("the number of output channels", filter[0], group); err != nil {
		return Shape{}, err
	}
	w, err := c.filterWindow(filter[2:])
	if err != nil {
		return Shape{}, err
	}
	spatial, err := w.slide(in[2:], false)
	if err != nil {
		return Shape{}, err
	}
	return Of(append([]Dim{in[0], filter[0]}, spatial...)...), nil
}

// sameRank returns the dimensions of the input and of another tensor of as many, those of one that has none given as
// unknown; ok is false where neither has any.
func (c *call) sameRank(in []Dim, okIn bool, other []Dim, okOther bool, otherHas string) (x, y []Dim, ok bool, err error) {
	switch {
	case !okIn && !okOther:
		return nil, nil, false, nil
	case !okIn:
		in = unknowns(len(other))
	case !okOther:
		other = unknowns(len(in))
	}
	if len(in) != len(other) {
		return nil, nil, false, fmt.Errorf("the input has %d dimensions and the %s %d", len(in), otherHas, len(other))
	}
	return in, other, true, nil
}

// filterWindow returns the window of a convolution with a kernel of these
// sizes, which the attribute kernel_shape may say again.
func (c *call) filterWindow(kernel []Dim) (window, error) {
	said, ok, err := c.kernelShape(len(kernel))
	if err != nil {
		return window{}, err
	}
	if ok {
		for i := range said {
			if _, err := agree("the kernel size", said[i], kernel[i]); err != nil {
				return window{}, err
			}
		}
		kernel = said
	}
	return c.window(kernel)
}

// convTranspose: filters are [C, M/group, kernel...]. The attribute output_shape
// wins over everything else; ONNX Runtime reads its last numbers, for files in
// which it covers batch and channels as well.
func convTranspose(c *call) error {
	elem := c.elem(0)
	if err := c.needEach(0, 1); err != nil {
		return err
	}
	c.out(0, elem, Shape{})
	group, err := c.positiveInt("group", 1)
	if err != nil {
		return err
	}
	in, okX, err := c.ranked(0, 3, anyRank)
	if err != nil {
		return err
	}
	filter, okW, err := c.ranked(1, 3, anyRank)
	if err != nil {
		return err
	}
	in, filter, ok, err := c.sameRank(in, okX, filter, okW, "filters have")
	if err != nil || !ok {
		return err
	}
	channels, err := agree("the number of input channels", in[1], filter[0])
	if err != nil {
		return err
	}
	if _, err := divide("the number of input channels", channels, group); err != nil {
		return err
	}
	n := len(in) - 2
	window, err := c.filterWindow(filter[2:])
	if err != nil {
		return err
	}
	adjust, err := c.perAxis("output_padding", n, 0, 0)
	if err != nil {
		return err
	}
	out := []Dim{in[0], Mul(filter[1], N(group))}
	if want, ok := c.attrInts("output_shape"); ok && len(want) > 0 {
		if len(want) != n && len(want) != n+2 {
			return fmt.Errorf("attribute output_shape has %d numbers, wanted %d", len(want), n)
		}
		for _, v := range want[len(want)-n:] {
			if v < 0 {
				return fmt.Errorf("attribute output_shape has the negative size %d", v)
			}
			out = append(out, N(v))
		}
		c.out(0, elem, Of(out...))
		return nil
	}
	for i, d := range in[2:] {
		d, err := window.spread(i, d, adjust[i])
		if err != nil {
			return err
		}
		out = append(out, d)
	}
	c.out(0, elem, Of(out...))
	return nil
}

// col2im: the input is [N, C * product of the block, L], the sizes of image and
// block are inputs.
func col2im(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	in, err := c.ofRank(3)
	if err != nil {
		return err
	}
	image, okImage, err := c.sizes(1)
	if err != nil {
		return err
	}
	block, okBlock, err := c.sizes(2)
	if err != nil {
		return err
	}
	channels := unknownSize
	if okBlock {
		area := Product(block...)
		if n, isInt := area.Int(); isInt {
			if channels, err = divide("the second dimension", in[1], n); err != nil {
				return err
			}
		} else {
			channels = FloorDiv(in[1], area)
		}
	}
	switch {
	case okImage && okBlock && len(image) != len(block):
		return fmt.Errorf("the image has %d dimensions and the block has %d", len(image), len(block))
	case !okImage && okBlock:
		image = unknowns(len(block))
	case !okImage:
		return nil
	}
	for _, name := range []string{"dilations", "strides"} {
		if _, err := c.perAxis(name, len(image), 1, 1); err != nil {
			return err
		}
	}
	c.out(0, c.elem(0), Of(append([]Dim{in[0], channels}, image...)...))
	return nil
}
