package shape

// msGradFamily has what ONNX Runtime's training writes into a graph beside the model: gradients that have the type of
// what they are the gradient of, and sums of them. Source: ONNX Runtime, training_op_defs.cc.
var msGradFamily = family{"com.microsoft", []op{
	{"ReluGrad", 1, likeInputs(0), nil},
	{"LeakyReluGrad", 1, likeInputs(0), nil},
	{"SigmoidGrad", 1, likeInputs(0), nil},
	{"TanhGrad", 1, likeInputs(0), nil},
	{"GeluGrad", 1, likeInputs(0), nil},
	{"FastGeluGrad", 1, likeInputs(0), nil},
	{"QuickGeluGrad", 1, likeInputs(0), nil},
	{"BiasGeluGrad_dX", 1, likeInputs(0), nil},
	{"BiasFastGeluGrad_dX", 1, likeInputs(0), nil},
	{"SoftmaxGrad", 1, likeInputs(0), nil},
	{"SoftmaxGrad_13", 1, likeInputs(0), nil},
	{"LogSoftmaxGrad", 1, likeInputs(0), nil},
	{"LogSoftmaxGrad_13", 1, likeInputs(0), nil},
	{"DropoutGrad", 1, likeInputs(0), nil},
	{"BitmaskDropoutGrad", 1, likeInputs(0), nil},
	{"SoftmaxCrossEntropyGrad", 1, likeInputs(1), nil}, // of log_prob
	{"SoftmaxCrossEntropyLossGrad", 1, likeInputs(1), nil},
	{"DivGrad", 1, likeInputs(1, 2), nil},
	{"LayerNormalizationGrad", 1, likeInputs(1, 2, 2), nil}, // of X, scale and bias
	{"SimplifiedLayerNormalizationGrad", 1, likeInputs(1, 2), nil},
	{"BatchNormalizationGrad", 1, likeInputs(1, 2, 2), nil},
	{"ConvGrad", 1, convGrad, nil},
	{"GatherGrad", 1, gradOfShape(0, 2), nil},
	{"GatherNDGrad", 1, gradOfShape(0, 2), nil},
	{"GatherElementsGrad", 1, gradOfShape(1, 0), nil},
	{"SliceGrad", 1, gradOfShape(1, 0), nil},
	{"ReduceSumTraining", 1, reduce, sumEval},
	{"InPlaceAccumulator", 1, likeInputs(0), nil},
	{"ZeroGradient", 1, likeInputs(0), nil},
	{"Scale", 1, likeInputs(0), nil},
	{"PassThrough", 1, passThrough, nil},
	{"Group", 1, isAllFinite, nil}, // whether all inputs are there
}}

// likeInputs is the rule of operators whose output i has the type of input of[i].
func likeInputs(of ...int) func(*call) error {
	return func(c *call) error {
		if err := c.needEach(of...); err != nil {
			return err
		}
		for i, in := range of {
			c.set(i, c.in(in))
		}
		return nil
	}
}

// convGrad: the gradient of the result, X, W -> those of X, W and the bias, [M].
func convGrad(c *call) error {
	if err := c.need(3); err != nil {
		return err
	}
	c.set(0, c.in(1))
	c.set(1, c.in(2))
	bias := Shape{}
	if w, ok, err := c.ranked(2, 3, anyRank); err != nil {
		return err
	} else if ok {
		bias = Of(w[0])
	}
	c.out(2, c.elem(2), bias)
	return nil
}

// gradOfShape is the rule of operators that have the shape of their result as an input, and its type as that of
// another.
func gradOfShape(shape, like int) func(*call) error {
	return func(c *call) error {
		if err := c.need(3); err != nil {
			return err
		}
		c.out(0, c.elem(like), Shape{})
		if sizes, ok := c.ints(shape); ok {
			s, err := shapeOf(sizes)
			c.out(0, c.elem(like), s)
			return err
		}
		if n, ok := c.length(shape); ok {
			c.out(0, c.elem(like), Of(c.unknowns(n)...))
		}
		return nil
	}
}

// passThrough: as many outputs as inputs, the same.
func passThrough(c *call) error {
	for i := range c.node.In {
		c.set(i, c.in(i))
	}
	return nil
}
