package shape

import "github.com/memestimate/memestimate/onnxload"

var detectFamily = family{"", []op{
	{"NonMaxSuppression", 10, nonMaxSuppression, nil},
}}

// nonMaxSuppression: boxes [N, B, 4], scores [N, C, B], then the most boxes to select for each
// batch and class, 0 of them by default. How many survive depends on the data.
func nonMaxSuppression(c *call) {
	c.need(2)
	boxes, okB := c.ranked(0, 3, 3)
	scores, okS := c.ranked(1, 3, 3)
	if !okB {
		boxes = unknowns(3)
	}
	if !okS {
		scores = unknowns(3)
	}
	checked(agree("the width of a box", boxes[2], N(4)))
	batch := checked(agree("the batch size", boxes[0], scores[0]))
	each := checked(agree("the number of boxes", boxes[1], scores[2]))
	limit, ok := c.scalar(2)
	switch {
	case !c.has(2):
		each = N(0)
	case ok:
		each = Max(Min(each, limit), N(0))
	}
	n := Product(batch, scores[1], each)
	if !c.keepsAll(each) {
		n = bounded(n)
	}
	c.out(0, onnxload.Int64, Of(n, N(3)))
}

// keepsAll reports whether no data can keep a NonMaxSuppression from selecting as many boxes as it may. Without a
// threshold no score is too low; then the first box of a class always stays, and
// all do when the overlap must be more than 1, the whole.
func (c *call) keepsAll(each Dim) bool {
	if c.has(4) {
		return false
	}
	if one, ok := each.Int(); ok && one == 1 {
		return true
	}
	overlap, ok := c.floats(3)
	return ok && len(overlap) == 1 && overlap[0] >= 1
}
