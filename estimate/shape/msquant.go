package shape

import (
	"fmt"

	"github.com/memestimate/memestimate/onnxload"
)

var msQuantFamily = family{"com.microsoft", []op{
	{"QuantizeLinear", 1, quantize, nil},
	{"DequantizeLinear", 1, dequantize, nil},
	{"QuantizeWithOrder", 1, quantizeWithOrder, nil},
	{"DequantizeWithOrder", 1, dequantizeWithOrder, nil},
	{"QuantizeBFP", 1, quantizeBFP, nil},
	{"DequantizeBFP", 1, dequantizeBFP, nil},
	{"QLinearAdd", 1, qlinearBinary, nil},
	{"QLinearMul", 1, qlinearBinary, nil},
	{"QLinearSigmoid", 1, likeInput, nil},
	{"QLinearLeakyRelu", 1, likeInput, nil},
	{"QLinearSoftmax", 1, likeInput, nil},
	{"QOrderedGelu", 1, likeInput, nil},
	{"QLinearWhere", 1, qlinearWhere, nil},
	{"QLinearConcat", 1, qlinearConcat, nil},
	{"QLinearReduceMean", 1, qlinearReduceMean, nil},
	{"ReduceSumInteger", 1, reduceSumInteger, nil},
	{"MulInteger", 1, mulInteger, nil},
	{"GatherBlockQuantized", 1, gatherBlocks, nil},
	{"DynamicQuantizeLSTM", 1, quantizedLSTM, nil},
	{"AttnLSTM", 1, rnn, nil},
}}

func quantizeWithOrder(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	c.out(0, onnxload.Int8, c.shape(0))
	return nil
}

func dequantizeWithOrder(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	if _, err := c.needInt("to"); err != nil {
		return err
	}
	elem, err := c.attrElem("to", onnxload.Undefined)
	c.out(0, elem, c.shape(0))
	return err
}

// quantizeBFP: as many bytes as its format needs, then the shape and the strides of the input.
func quantizeBFP(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	rank := c.unknown()
	if dims, ok := c.dims(0); ok {
		rank = N(int64(len(dims)))
	}
	c.out(0, onnxload.Uint8, Of(c.unknown()))
	c.out(1, onnxload.Int64, Of(rank))
	c.out(2, onnxload.Int64, Of(rank))
	return nil
}

// dequantizeBFP: block floating point data, then the shape of the result.
func dequantizeBFP(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	elem, err := c.attrElem("dtype", onnxload.Float32)
	if err != nil {
		return err
	}
	c.out(0, elem, Shape{})
	if sizes, ok := c.ints(1); ok {
		s, err := shapeOf(sizes)
		c.out(0, elem, s)
		return err
	}
	return nil
}

// qlinearBinary: A, its scale and zero point, B with the same, scale and zero point of the result.
func qlinearBinary(c *call) error {
	if err := c.needEach(0, 3); err != nil {
		return err
	}
	s, err := broadcast(c.shape(0), c.shape(3))
	c.out(0, c.elem(0), s)
	return err
}

// mulInteger: A, its zero point, B, its zero point.
func mulInteger(c *call) error {
	if err := c.needEach(0, 2); err != nil {
		return err
	}
	s, err := broadcast(c.shape(0), c.shape(2))
	c.out(0, onnxload.Int32, s)
	return err
}

// qlinearWhere: condition, X, its scale and zero point, Y with the same.
func qlinearWhere(c *call) error {
	if err := c.need(5); err != nil {
		return err
	}
	s, err := broadcast(c.shape(0), c.shape(1), c.shape(4))
	c.out(0, c.elem(1), s)
	return err
}

// qlinearConcat: scale and zero point of the result, then each part with its own.
func qlinearConcat(c *call) error {
	c.out(0, c.elem(1), Shape{})
	a, err := c.needInt("axis")
	if err != nil {
		return err
	}
	if len(c.node.In) < 5 || len(c.node.In)%3 != 2 {
		return fmt.Errorf("%d inputs, wanted 2 and three for each part", len(c.node.In))
	}
	var out []Dim
	for i := 2; i < len(c.node.In); i += 3 {
		part, ok := c.dims(i)
		if !ok {
			return nil
		}
		at, err := axis(a, len(part))
		if err != nil {
			return err
		}
		if out == nil {
			out = append(out, part...)
			continue
		}
		if len(part) != len(out) {
			return fmt.Errorf("input %d has %d dimensions, those before it have %d", i, len(part), len(out))
		}
		for j, d := range part {
			if j == at {
				out[j] = Add(out[j], d)
			} else if out[j], err = agree("a dimension that is not joined", out[j], d); err != nil {
				return err
			}
		}
	}
	c.out(0, c.elem(1), Of(out...))
	return nil
}

func qlinearReduceMean(c *call) error {
	s, err := reducedByAttr(c)
	c.out(0, c.elem(0), s)
	return err
}

func reduceSumInteger(c *call) error {
	elem := onnxload.Int32
	if c.elem(0) == onnxload.Uint8 {
		elem = onnxload.Uint32
	}
	s, err := reducedByAttr(c)
	c.out(0, elem, s)
	return err
}

// reducedByAttr drops the axes in attribute axes, or makes them 1 with attribute keepdims.
func reducedByAttr(c *call) (Shape, error) {
	in, ok := c.dims(0)
	if !ok {
		return Shape{}, nil
	}
	axes, err := axesOf(c, len(in))
	if err != nil {
		return Shape{}, err
	}
	gone := make([]bool, len(in))
	for _, a := range axes {
		gone[a] = true
	}
	keep := c.attrInt("keepdims", 1) != 0
	out := Of()
	for i, d := range in {
		switch {
		case !gone[i]:
			out.Dims = append(out.Dims, d)
		case keep:
			out.Dims = append(out.Dims, N(1))
		}
	}
	return out, nil
}

// gatherBlocks: data quantized in blocks, indices, scales. Bytes hold several numbers along the
// last axis when attribute bits is below 8.
func gatherBlocks(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.out(0, c.elem(2), Shape{})
	data, ok, err := c.ranked(0, 1, anyRank)
	if err != nil || !ok {
		return err
	}
	at, err := axis(c.attrInt("gather_axis", 0), len(data))
	if err != nil {
		return err
	}
	which, ok := c.dims(1)
	if !ok {
		return nil
	}
	data = append([]Dim(nil), data...)
	if c.elem(0) == onnxload.Uint8 {
		bits := c.attrInt("bits", 4)
		if bits != 2 && bits != 4 && bits != 8 {
			return fmt.Errorf("attribute bits is %d, wanted 2, 4 or 8", bits)
		}
		data[len(data)-1] = Mul(data[len(data)-1], N(8/bits))
	}
	out := append([]Dim(nil), data[:at]...)
	out = append(append(out, which...), data[at+1:]...)
	c.out(0, c.elem(2), Of(out...))
	return nil
}

// quantizedLSTM: R is turned, [directions, hidden, 4*hidden], so its middle dimension
// is the hidden size.
func quantizedLSTM(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	hidden := c.unknown()
	if r, ok, err := c.ranked(2, 3, 3); err != nil {
		return err
	} else if ok {
		hidden = r[1]
	}
	return recurrent(c, hidden)
}
