package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

// legacyFamily has experimental operators of ONNX's first versions that later ones removed; converters of Core ML and
// Caffe2 wrote them.
var legacyFamily = family{"", []op{
	{"Affine", 1, unary, nil},
	{"Scale", 1, unary, nil},
	{"ImageScaler", 1, unary, nil},
	{"Crop", 1, crop, nil},
	{"ConstantFill", 1, constantFill, nil},
}}

// crop cuts the border of [left, top, right, bottom] off an image of [N, C, H, W], or with scale keeps that height
// and width from the left and top on.
func crop(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	border, err := c.wantInts("border")
	if err != nil {
		return err
	}
	if len(border) != 4 {
		return fmt.Errorf("attribute border has %d numbers, wanted 4", len(border))
	}
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(0), Of(c.unknowns(4)...))
		return nil
	}
	if len(dims) != 4 {
		return fmt.Errorf("an image of %d dimensions, wanted 4", len(dims))
	}
	h, w := Sub(Sub(dims[2], N(border[1])), N(border[3])), Sub(Sub(dims[3], N(border[0])), N(border[2]))
	if scale, ok := c.attrInts("scale"); ok && len(scale) == 2 {
		h, w = N(scale[0]), N(scale[1])
	}
	s, err := shapeOf([]Dim{dims[0], dims[1], h, w})
	c.out(0, c.elem(0), s)
	return err
}

// constantFill fills a shape: that of its input, the one in its input with input_as_shape, or else attribute shape.
func constantFill(c *call) error {
	elem, err := c.attrElem("dtype", onnxload.Float32)
	if err != nil {
		return err
	}
	s := Shape{}
	switch {
	case !c.has(0):
		sizes, err := c.wantInts("shape")
		if err != nil {
			return err
		}
		if s, err = shapeOf(toDims(sizes)); err != nil {
			return err
		}
	case c.attrInt("input_as_shape", 0) == 0:
		s = c.shape(0)
	default:
		if target, ok := c.ints(0); ok {
			if s, err = shapeOf(target); err != nil {
				return err
			}
		} else if n, ok := c.length(0); ok {
			s = Of(c.unknowns(n)...)
		}
	}
	if extra, ok := c.attrInts("extra_shape"); ok && s.Ranked {
		s, err = shapeOf(append(append([]Dim{}, s.Dims...), toDims(extra)...))
	}
	c.out(0, elem, s)
	return err
}
