package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var poolFamily = family{"", []op{
	{"MaxPool", 1, pool, nil},
	{"AveragePool", 1, pool, nil},
	{"LpPool", 1, pool, nil},
	{"GlobalAveragePool", 1, globalPool, nil},
	{"GlobalMaxPool", 1, globalPool, nil},
	{"GlobalLpPool", 1, globalPool, nil},
	{"RoiAlign", 10, roiAlign, nil},
}}

// pool: attributes that a version does not have yet (dilations, ceil_mode) have
// their defaults there. MaxPool's second output holds indices.
func pool(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	s, err := poolShape(c, c.shape(0))
	c.out(0, c.elem(0), s)
	c.out(1, onnxload.Int64, s)
	return err
}

// poolShape returns what a pooling makes of [N, C, spatial...].
func poolShape(c *call, in Shape) (Shape, error) {
	if !in.Ranked {
		return Shape{}, nil
	}
	if len(in.Dims) < 3 {
		return Shape{}, fmt.Errorf("input 0 has %d dimensions, wanted at least 3", len(in.Dims))
	}
	kernel, ok, err := c.kernelShape(len(in.Dims) - 2)
	if err != nil {
		return Shape{}, err
	}
	if !ok {
		return Shape{}, fmt.Errorf("attribute kernel_shape is missing")
	}
	w, err := c.window(kernel)
	if err != nil {
		return Shape{}, err
	}
	spatial, err := w.slide(in.Dims[2:], c.attrInt("ceil_mode", 0) != 0)
	if err != nil {
		return Shape{}, err
	}
	return Of(append([]Dim{in.Dims[0], in.Dims[1]}, spatial...)...), nil
}

func globalPool(c *call) error {
	in, ok, err := c.likeInput(2)
	if err != nil || !ok {
		return err
	}
	out := append([]Dim(nil), in...)
	for i := 2; i < len(out); i++ {
		out[i] = N(1)
	}
	c.out(0, c.elem(0), Of(out...))
	return nil
}

// roiAlign: rois are [R, 4], the third input has the picture of each.
func roiAlign(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	h, err := c.positiveInt("output_height", 1)
	if err != nil {
		return err
	}
	w, err := c.positiveInt("output_width", 1)
	if err != nil {
		return err
	}
	return regions(c, 4, N(h), N(w))
}

// regions is the rule of operators that cut regions, given as rows of width numbers
// in input 1, out of the pictures of input 0.
func regions(c *call, width int64, h, w Dim) error {
	in, okX, err := c.ranked(0, 4, 4)
	if err != nil {
		return err
	}
	rois, okR, err := c.ranked(1, 2, 2)
	if err != nil {
		return err
	}
	channels, count := unknownSize, unknownSize
	if okX {
		channels = in[1]
	}
	if okR {
		count = rois[0]
		if _, err := agree("the width of a region", rois[1], N(width)); err != nil {
			return err
		}
	}
	if pictures, ok, err := c.ranked(2, 1, 1); err != nil {
		return err
	} else if ok {
		if count, err = agree("the number of regions", count, pictures[0]); err != nil {
			return err
		}
	}
	c.out(0, c.elem(0), Of(count, channels, h, w))
	return nil
}
