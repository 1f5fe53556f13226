package shape

import (
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

// activationFamily has the activation functions, softmax and dropout.
var activationFamily = family{"", []op{
	{"Relu", 1, unary, unaryEval(func(_ *call, a Dim) Dim { return Max(a, N(0)) },
		func(x float64) float64 { return math.Max(x, 0) })},
	{"Sigmoid", 1, unary, floatEval(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })},
	{"Tanh", 1, unary, floatEval(math.Tanh)},
	{"LeakyRelu", 1, unary, nil},
	{"Elu", 1, unary, nil},
	{"Selu", 1, unary, nil},
	{"Celu", 12, unary, nil},
	{"Softplus", 1, unary, nil},
	{"Softsign", 1, unary, nil},
	{"HardSigmoid", 1, unary, nil},
	{"HardSwish", 14, unary, nil},
	{"ThresholdedRelu", 1, unary, nil},
	{"Shrink", 9, unary, nil},
	{"Mish", 18, unary, nil},
	{"Gelu", 20, unary, nil},
	{"Swish", 24, unary, nil},
	{"SwiGLU", 28, gated, nil},
	{"PRelu", 1, preluV1, nil},
	{"PRelu", 7, prelu, nil},

	{"Softmax", 1, softmaxV1, nil},
	{"Softmax", 13, softmax, nil},
	{"LogSoftmax", 1, softmaxV1, nil},
	{"LogSoftmax", 13, softmax, nil},
	{"Hardmax", 1, softmaxV1, nil},
	{"Hardmax", 13, softmax, nil},

	{"Dropout", 1, dropoutV1, nil},
	{"Dropout", 10, dropout, nil},
	{"Dropout", 12, dropout, nil},

	// Experimental operators that opset 10 removed.
	{"ParametricSoftplus", 1, unary, nil},
	{"ScaledTanh", 1, unary, nil},
}}

// gated is the rule of SwiGLU: two inputs of the same shape, which do not stretch.
func gated(c *call) {
	c.need(2)
	s := checked(mergeShape(c.shape(0), c.shape(1)))
	c.out(0, c.commonElem(0, 1), s)
}

// preluV1 has one slope, or one a channel.
func preluV1(c *call) {
	c.need(2)
	unary(c)
}

// prelu has slopes that stretch to X; X does not stretch.
func prelu(c *call) {
	c.need(2)
	x, slope := c.shape(0), c.shape(1)
	if x.Ranked && slope.Ranked {
		if len(slope.Dims) > len(x.Dims) {
			c.fail("slope %v does not stretch to %v", slope, x)
		}
		s := checked(broadcast(x, slope))
		for i, d := range s.Dims {
			if _, err := agree("the size", x.Dims[i], d); err != nil {
				c.fail("slope %v does not stretch to %v", slope, x)
			}
		}
	}
	unary(c)
}

// softmax works along one axis, the last by default.
func softmax(c *call) {
	if dims, ok := c.dims(0); ok && len(dims) > 0 {
		c.axisAttr(-1, len(dims))
	}
	unary(c)
}

// softmaxV1 flattens to a matrix at axis, by default 1; axis may be the rank, which
// makes rows of one element.
func softmaxV1(c *call) {
	if dims, ok := c.dims(0); ok && len(dims) > 0 {
		if c.attrInt("axis", 1) != int64(len(dims)) {
			c.axisAttr(1, len(dims))
		}
	}
	unary(c)
}

// dropoutV1 has a mask of the data's type.
func dropoutV1(c *call) {
	unary(c)
	c.out(1, c.elem(0), c.shape(0))
}

// dropout has a mask of bools since opset 10.
func dropout(c *call) {
	unary(c)
	c.out(1, onnxload.Bool, c.shape(0))
}
