package shape

import "github.com/memestimate/memestimate/onnxload"

var detectRoom = room{"", []op{
	{"NonMaxSuppression", 10, nonMaxSuppression, nil},
}}

// nonMaxSuppression: boxes [N, B, 4], scores [N, C, B], then the most boxes to select for each
// batch and class, 0 of them by default. How many survive depends on the data.
func nonMaxSuppression(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	boxes, okB, err := c.ranked(0, 3, 3)
	if err != nil {
		return err
	}
	scores, okS, err := c.ranked(1, 3, 3)
	if err != nil {
		return err
	}
	if !okB {
		boxes = c.unknowns(3)
	}
	if !okS {
		scores = c.unknowns(3)
	}
	if _, err := agree("the width of a box", boxes[2], N(4)); err != nil {
		return err
	}
	batch, err := agree("the batch size", boxes[0], scores[0])
	if err != nil {
		return err
	}
	each, err := agree("the number of boxes", boxes[1], scores[2])
	if err != nil {
		return err
	}
	most, ok, err := c.scalar(2)
	if err != nil {
		return err
	}
	switch {
	case !c.has(2):
		each = N(0)
	case ok:
		each = Max(Min(each, most), N(0))
	}
	c.out(0, onnxload.Int64, Of(c.bounded(Product(batch, scores[1], each)), N(3)))
	return nil
}
