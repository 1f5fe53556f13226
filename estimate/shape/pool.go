package shape

import "github.com/memestimate/memestimate/onnxload"

var poolFamily = family{"", []op{
	{"MaxPool", 1, pool, nil},
	{"AveragePool", 1, pool, nil},
	{"LpPool", 1, pool, nil},
	{"GlobalAveragePool", 1, globalPool, nil},
	{"GlobalMaxPool", 1, globalPool, nil},
	{"GlobalLpPool", 1, globalPool, nil},
	{"RoiAlign", 10, roiAlign, nil},
}}

// pool: attributes that a version does not have yet (dilations, ceil_mode) have
// their defaults there. MaxPool's second output holds indices.
func pool(c *call) {
	c.need(1)
	s := poolShape(c, c.shape(0))
	c.out(0, c.elem(0), s)
	c.out(1, onnxload.Int64, s)
}

// poolShape returns what a pooling makes of [N, C, spatial...].
func poolShape(c *call, in Shape) Shape {
	if !in.Ranked {
		return Shape{}
	}
	if len(in.Dims) < 3 {
		c.fail("input 0 has %d dimensions, wanted at least 3", len(in.Dims))
	}
	kernel, ok := c.kernelShape(len(in.Dims) - 2)
	if !ok {
		c.fail("attribute kernel_shape is missing")
	}
	w := c.window(kernel)
	spatial := checked(w.slide(in.Dims[2:], c.attrInt("ceil_mode", 0) != 0))
	return Of(append([]Dim{in.Dims[0], in.Dims[1]}, spatial...)...)
}

func globalPool(c *call) {
	in, ok := c.likeInput(2)
	if !ok {
		return
	}
	out := append([]Dim(nil), in...)
	for i := 2; i < len(out); i++ {
		out[i] = N(1)
	}
	c.out(0, c.elem(0), Of(out...))
}

// roiAlign: rois are [R, 4], the third input has the picture of each.
func roiAlign(c *call) {
	c.need(3)
	h := c.positiveInt("output_height", 1)
	w := c.positiveInt("output_width", 1)
	regions(c, 4, N(h), N(w))
}

// regions is the rule of operators that cut regions, given as rows of width numbers
// in input 1, out of the pictures of input 0.
func regions(c *call, width int64, h, w Dim) {
	in, okX := c.ranked(0, 4, 4)
	rois, okR := c.ranked(1, 2, 2)
	channels, count := unknownSize, unknownSize
	if okX {
		channels = in[1]
	}
	if okR {
		count = rois[0]
		checked(agree("the width of a region", rois[1], N(width)))
	}
	if pictures, ok := c.ranked(2, 1, 1); ok {
		count = checked(agree("the number of regions", count, pictures[0]))
	}
	c.out(0, c.elem(0), Of(count, channels, h, w))
}

var detectFamily = family{"", []op{
	{"NonMaxSuppression", 10, nonMaxSuppression, nil},
}}

// nonMaxSuppression: boxes [N, B, 4], scores [N, C, B], then the most boxes to select for each
// batch and class, 0 of them by default. How many survive depends on the data.
func nonMaxSuppression(c *call) {
	c.need(2)
	boxes, scores := c.ofRank(0, 3, 3), c.ofRank(1, 3, 3)
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
