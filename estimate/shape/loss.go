package shape

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
