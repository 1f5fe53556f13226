package shape

import "github.com/memestimate/memestimate/onnxload"

var normFamily = family{"", []op{
	{"BatchNormalization", 1, batchNorm, nil},    // through 13: Y, mean, var, saved_mean, saved_var
	{"BatchNormalization", 14, batchNorm14, nil}, // Y, running_mean, running_var
	{"InstanceNormalization", 1, channelNorm, nil},
	{"LayerNormalization", 17, layerNorm, nil},
	{"GroupNormalization", 18, groupNorm, nil},
	{"RMSNormalization", 23, rmsNorm, nil},
	{"LpNormalization", 1, lpNorm, nil},
	{"LRN", 1, lrn, nil},
	{"MeanVarianceNormalization", 9, likeInput, nil},
}}

// channelCount returns the second dimension of input 0, which the rank 1 inputs
// from..to count as well. A batch norm of a vector has one channel.
func channelCount(c *call, from, to int) Dim {
	var channels Dim
	if in, ok := c.ranked(0, 1, anyRank); ok && len(in) > 1 {
		channels = in[1]
	} else if ok {
		channels = N(1)
	} else {
		channels = unknownSize
	}
	for i := from; i <= to; i++ {
		of, ok := c.ranked(i, 1, 1)
		if !ok {
			continue
		}
		channels = checked(agree("the number of channels", channels, of[0]))
	}
	return channels
}

// batchNorm: attribute spatial 0 (through version 8) has statistics for every place of a sample.
func batchNorm(c *call) {
	c.need(3)
	if c.attrInt("spatial", 1) == 0 {
		c.set(0, c.in(0))
		for i := 1; i <= 4; i++ {
			c.out(i, c.elem(0), c.shape(1))
		}
		return
	}
	channels := channelCount(c, 1, 4)
	c.set(0, c.in(0))
	for i := 1; i <= 4; i++ {
		c.out(i, c.elem(0), Of(channels))
	}
}

// batchNorm14: the statistics have a type of their own. That attribute training_mode and the
// number of outputs belong together is not checked: files in use break it.
func batchNorm14(c *call) {
	c.need(5)
	channels := channelCount(c, 1, 4)
	c.set(0, c.in(0))
	c.out(1, c.elem(3), Of(channels))
	c.out(2, c.elem(4), Of(channels))
}

func channelNorm(c *call) {
	c.need(3)
	c.set(0, c.in(0))
	channelCount(c, 1, 2)
}

// layerNorm: mean and inverse deviation keep the axes before attribute axis; those
// from it on become 1. Their type is that of attribute stash_type.
func layerNorm(c *call) {
	c.need(2)
	c.set(0, c.in(0))
	statistics(c, 1, 2)
}

// statistics sets the outputs first..last to what a normalization over the axes from
// attribute axis on keeps of its input. Where a node has none of them, attribute stash_type may be 0, no type at all:
// files have it so for no wider type than the input's, and ONNX Runtime runs them.
func statistics(c *call, first, last int) {
	elem := onnxload.Float32
	asked := c.attrInt("stash_type", int64(elem)) != 0
	for i := first; i <= last; i++ {
		asked = asked || c.hasOut(i)
	}
	if asked {
		elem = c.attrElem("stash_type", elem)
	}
	s := Shape{}
	if in, ok := c.dims(0); ok {
		at := checked(axis(c.attrInt("axis", -1), len(in)))
		s = Of(append([]Dim(nil), in...)...)
		for ; at < len(in); at++ {
			s.Dims[at] = N(1)
		}
	}
	for i := first; i <= last; i++ {
		c.out(i, elem, s)
	}
}

func rmsNorm(c *call) { alongAxis(c, 2) }

func lpNorm(c *call) { alongAxis(c, 1) }

// alongAxis is the rule of operators of so many inputs that keep the type of the first, which has the attribute axis.
func alongAxis(c *call, inputs int) {
	c.need(inputs)
	c.set(0, c.in(0))
	if in, ok := c.dims(0); ok {
		c.axisAttr(-1, len(in))
	}
}

// groupNorm: scale and bias have an element a channel, and before opset 21 one a group. Either is taken of any opset.
func groupNorm(c *call) {
	c.need(3)
	c.set(0, c.in(0))
	groups := c.needInt("num_groups")
	in, ok := c.ranked(0, 2, anyRank)
	if !ok {
		return
	}
	checked(divide("the number of channels", in[1], groups))
	wanted := unknownSize
	for i := 1; i < 3; i++ {
		s, ok := c.ranked(i, 1, 1)
		if !ok {
			continue
		}
		wanted = checked(agree("the number of scales and biases", s[0], wanted))
	}
	channels, known := in[1].Int()
	if n, ok := wanted.Int(); ok && known && n != channels && n != groups {
		c.fail("scale and bias have %d elements for %d channels in %d groups", n, channels, groups)
	}
}

func lrn(c *call) {
	c.need(1)
	c.set(0, c.in(0))
	c.needDim("size")
}

var lossFamily = family{"", []op{
	{"NegativeLogLikelihoodLoss", 12, classLoss, nil},
	{"SoftmaxCrossEntropyLoss", 12, classLoss, nil},
}}

// classLoss: scores [N, C, d...], target [N, d...], weight [C]. Attribute reduction none keeps
// the target's shape, mean and sum leave a scalar. Softmax cross entropy's second
// output is the logarithm of the probabilities.
func classLoss(c *call) {
	c.need(2)
	c.out(0, c.elem(0), Shape{})
	c.set(1, c.in(0))
	in, okX := c.ranked(0, 2, anyRank)
	target, okT := c.ranked(1, 1, anyRank)
	if okX && okT {
		if len(in) != len(target)+1 {
			c.fail("the scores have %d dimensions and the target has %d", len(in), len(target))
		}
		for i := range target {
			j := i
			if i > 0 {
				j++
			}
			checked(agree("a dimension of scores and target", in[j], target[i]))
		}
	}
	if w, ok := c.ranked(2, 1, 1); ok && okX {
		checked(agree("the number of classes", in[1], w[0]))
	}
	s := Of()
	switch r := c.attrStr("reduction", "mean"); r {
	case "mean", "sum":
	case "none":
		s = c.shape(1)
		if okX && !okT {
			s = Of(append([]Dim{in[0]}, in[2:]...)...)
		}
	default:
		c.fail("attribute reduction is %q, wanted none, mean or sum", r)
	}
	c.out(0, c.elem(0), s)
}
