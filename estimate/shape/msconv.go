package shape

import "fmt"

var msConvFamily = family{"com.microsoft", []op{
	{"FusedConv", 1, conv, nil},
	{"NhwcConv", 1, nhwcConv, nil},
	{"NhwcFusedConv", 1, nhwcConv, nil},
	{"QLinearConv", 1, msQLinearConv, nil},
	{"QLinearConvTranspose", 1, qlinearConvTranspose, nil}, // no page has it: contrib_defs of ONNX Runtime for XNNPACK
	{"ConvTransposeWithDynamicPads", 1, convTransposePads, nil},
	{"CausalConvWithState", 1, msCausalConv, nil},
	{"NhwcMaxPool", 1, nhwcPool, nil},
	{"MaxpoolWithMask", 1, pool, nil},
	{"QLinearAveragePool", 1, qlinearPool, nil},
	{"QLinearGlobalAveragePool", 1, qlinearGlobalPool, nil},
}}

// channelsFirst turns [N, spatial..., C] into [N, C, spatial...].
func channelsFirst(s Shape) Shape {
	n := len(s.Dims)
	if !s.Ranked || n < 2 {
		return s
	}
	out := append([]Dim{s.Dims[0], s.Dims[n-1]}, s.Dims[1:n-1]...)
	return Of(out...)
}

// channelsLast turns [N, C, spatial...] into [N, spatial..., C].
func channelsLast(s Shape) Shape {
	if !s.Ranked || len(s.Dims) < 2 {
		return s
	}
	out := append([]Dim{s.Dims[0]}, s.Dims[2:]...)
	return Of(append(out, s.Dims[1])...)
}

// nhwcConvShape is convShape for an input with its channels last; the filters are as usual.
func nhwcConvShape(c *call, x, w int) (Shape, error) {
	if _, _, err := c.ranked(x, 3, anyRank); err != nil {
		return Shape{}, err
	}
	filter, okW, err := c.ranked(w, 3, anyRank)
	if err != nil {
		return Shape{}, err
	}
	in := channelsFirst(c.shape(x))
	s, err := convDims(c, in.Dims, in.Ranked, filter, okW)
	return channelsLast(s), err
}

func nhwcConv(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	s, err := nhwcConvShape(c, 0, 1)
	c.out(0, c.elem(0), s)
	return err
}

func msQLinearConv(c *call) error {
	if err := c.need(8); err != nil {
		return err
	}
	if c.attrInt("channels_last", 0) == 0 {
		return qlinearConv(c)
	}
	s, err := nhwcConvShape(c, 0, 3)
	c.out(0, c.elem(7), s)
	return err
}

// qlinearConvTranspose: the inputs are those of QLinearConv.
func qlinearConvTranspose(c *call) error {
	if err := c.need(8); err != nil {
		return err
	}
	return transposed(c, 3, c.elem(7), nil)
}

// convTransposePads: the third input is the padding.
func convTransposePads(c *call) error {
	if !c.has(2) {
		return convTranspose(c)
	}
	pads, ok := c.int64s(2)
	if !ok {
		if err := convTranspose(c); err != nil {
			return err
		}
		if len(c.outs) > 0 { // the padding takes an unknown part of the spatial axes
			s := c.outs[0].Shape
			for i := 2; i < len(s.Dims); i++ {
				s.Dims[i] = c.unknown()
			}
		}
		return nil
	}
	return transposed(c, 1, c.elem(0), pads)
}

// msCausalConv: attribute dilation widens the state, state_window keeps several of them, and
// channels_last puts the channels, which may be several axes, behind the sequence.
func msCausalConv(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.set(0, c.in(0))
	c.out(1, c.elem(0), Shape{})
	dilation, err := c.positiveInt("dilation", 1)
	if err != nil {
		return err
	}
	spatial, err := c.positiveInt("ndim", 1)
	if err != nil {
		return err
	}
	windows := c.attrInt("state_window", 0)
	if windows < 0 {
		return fmt.Errorf("attribute state_window is %d, wanted at least 0", windows)
	}
	in, ok, err := c.ranked(0, 3, anyRank)
	if err != nil || !ok {
		return err
	}
	w, okW, err := c.ranked(1, 3, anyRank)
	if err != nil {
		return err
	}
	length := c.unknown()
	if okW {
		length = Mul(Sub(w[len(w)-1], N(1)), N(dilation))
	}
	state := append([]Dim(nil), in...)
	if c.attrInt("channels_last", 0) != 0 {
		state[1] = length
	} else {
		if int64(len(in)) != spatial+2 {
			return fmt.Errorf("input 0 has %d dimensions, wanted %d for attribute ndim", len(in), spatial+2)
		}
		state[len(state)-1] = length
	}
	if windows > 0 {
		state = append([]Dim{N(windows)}, state...)
	}
	c.out(1, c.elem(0), Of(state...))
	return nil
}

func nhwcPool(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	s, err := poolShape(c, channelsFirst(c.shape(0)))
	c.out(0, c.elem(0), channelsLast(s))
	return err
}

func qlinearPool(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	if c.attrInt("channels_last", 0) != 0 {
		return nhwcPool(c)
	}
	s, err := poolShape(c, c.shape(0))
	c.out(0, c.elem(0), s)
	return err
}

func qlinearGlobalPool(c *call) error {
	in, ok, err := c.likeInput(2)
	if err != nil || !ok {
		return err
	}
	first := 2
	if c.attrInt("channels_last", 0) != 0 {
		first = 1
	}
	out := append([]Dim(nil), in...)
	for i := range len(in) - 2 {
		out[first+i] = N(1)
	}
	c.out(0, c.elem(0), Of(out...))
	return nil
}
