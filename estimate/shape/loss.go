package shape

import "fmt"

var lossFamily = family{"", []op{
	{"NegativeLogLikelihoodLoss", 12, classLoss, nil},
	{"SoftmaxCrossEntropyLoss", 12, classLoss, nil},
}}

// classLoss: scores [N, C, d...], target [N, d...], weight [C]. Attribute reduction none keeps
// the target's shape, mean and sum leave a scalar. Softmax cross entropy's second
// output is the logarithm of the probabilities.
func classLoss(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	c.out(0, c.elem(0), Shape{})
	c.set(1, c.in(0))
	in, okX, err := c.ranked(0, 2, anyRank)
	if err != nil {
		return err
	}
	target, okT, err := c.ranked(1, 1, anyRank)
	if err != nil {
		return err
	}
	if okX && okT {
		if len(in) != len(target)+1 {
			return fmt.Errorf("the scores have %d dimensions and the target has %d", len(in), len(target))
		}
		for i := range target {
			j := i
			if i > 0 {
				j++
			}
			if _, err := agree("a dimension of scores and target", in[j], target[i]); err != nil {
				return err
			}
		}
	}
	if w, ok, err := c.ranked(2, 1, 1); err != nil {
		return err
	} else if ok && okX {
		if _, err := agree("the number of classes", in[1], w[0]); err != nil {
			return err
		}
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
		return fmt.Errorf("attribute reduction is %q, wanted none, mean or sum", r)
	}
	c.out(0, c.elem(0), s)
	return nil
}
