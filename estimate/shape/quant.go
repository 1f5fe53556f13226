package shape

import "github.com/memestimate/memestimate/onnxload"

var quantFamily = family{"", []op{
	{"QuantizeLinear", 10, quantize, nil},
	{"DequantizeLinear", 10, dequantize, nil},
	{"DynamicQuantizeLinear", 11, dynamicQuantize, nil},
}}

// quantize: the zero point has the output's type. Without one it is attribute
// output_dtype (since 21), without both uint8. Blocked quantization (attribute block_size) keeps
// the input's shape too.
func quantize(c *call) {
	c.need(2)
	said := c.attrElem("output_dtype", onnxload.Undefined)
	elem := said
	if c.has(2) {
		zero := c.elem(2)
		if said != onnxload.Undefined && zero != onnxload.Undefined && said != zero {
			c.fail("attribute output_dtype is %s and the zero point is %s", said, zero)
		}
		if zero != onnxload.Undefined {
			elem = zero
		}
	} else if said == onnxload.Undefined {
		elem = onnxload.Uint8
	}
	c.out(0, elem, c.shape(0))
	blocks(c)
}

// dequantize: the scale has the output's type, unless attribute output_dtype (since 23)
// says another. Before 19 the scale is always float32.
func dequantize(c *call) {
	c.need(2)
	elem := c.attrElem("output_dtype", onnxload.Undefined)
	if elem == onnxload.Undefined {
		elem = c.elem(1)
	}
	c.out(0, elem, c.shape(0))
	blocks(c)
}

// blocks checks the attributes of quantization by axis or by blocks. The axis counts only
// when the scale has dimensions.
func blocks(c *call) {
	if n := c.attrInt("block_size", 0); n < 0 {
		c.fail("attribute block_size is %d, wanted at least 0", n)
	}
	in, ok := c.dims(0)
	scale, okScale := c.dims(1)
	if !ok || !okScale || len(scale) == 0 || len(scale) == 1 && len(in) <= 1 {
		return
	}
	c.axisAttr(1, len(in))
}

// dynamicQuantize: y, its scale, its zero point.
func dynamicQuantize(c *call) {
	c.need(1)
	c.out(0, onnxload.Uint8, c.shape(0))
	c.out(1, onnxload.Float32, Of())
	c.out(2, onnxload.Uint8, Of())
}
