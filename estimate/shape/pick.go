package shape

import (
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

// pickFamily has the operators whose result's size depends on data, and TopK. Without a known
// value the size is an unknown with a limit.
var pickFamily = family{"", []op{
	{"NonZero", 9, nonZero, nil},
	{"Unique", 11, unique, nil},
	{"TopK", 1, topKAttr, nil},
	{"TopK", 10, topK, nil},
}}

// nonZero gives the coordinates of the elements that are not zero: [rank, n].
func nonZero(c *call) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, onnxload.Int64, Of(unknownSize, unknownSize))
		return
	}
	v := c.constant(0)
	var at []int
	known := v != nil && c.inf.afford(v.Len())
	for i := 0; known && i < v.Len(); i++ {
		zero, decided := false, true
		if v.isFloat() {
			zero, decided = v.Floats[i] == 0, !math.IsNaN(v.Floats[i])
		} else {
			zero, decided = isZero(v.Ints[i])
		}
		if known = decided; !zero {
			at = append(at, i)
		}
	}
	rank := len(dims)
	if !known || rank*len(at) > maxConst {
		c.out(0, onnxload.Int64, Of(N(int64(rank)), bounded(Product(dims...))))
		return
	}
	out := zeros(onnxload.Int64, []int64{int64(rank), int64(len(at))}, rank*len(at))
	own := strides(v.Shape)
	for j, p := range at {
		for i := range rank {
			out.Ints[i*len(at)+j] = N(int64(p / own[i] % int(v.Shape[i])))
		}
	}
	c.outConst(0, out)
}

// slices tells along which axis an operator picks from input 0, and among how many slices; without the
// attribute axis it picks elements of the flattened input.
func (c *call) slices() (flat bool, ax int, count Dim) {
	flat, count = c.node.Attr("axis") == nil, unknownSize
	dims, ok := c.dims(0)
	switch {
	case !ok:
	case flat:
		count = Product(dims...)
	default:
		ax = c.axisAttr(0, len(dims))
		count = dims[ax]
	}
	return flat, ax, count
}

// outPicked gives output 0 the shape of n slices along an axis of input 0, or of n of its elements.
func (c *call) outPicked(flat bool, ax int, n Dim) {
	switch s := c.shape(0); {
	case flat:
		c.out(0, c.elem(0), Of(n))
	case s.Ranked:
		c.out(0, c.elem(0), s.with(ax, n))
	default:
		c.out(0, c.elem(0), Shape{})
	}
}

// unique gives the different elements, or the different slices along axis; then the place
// where each occurs first, the number of the one that each element is, and how often each occurs.
func unique(c *call) {
	c.need(1)
	flat, ax, limit := c.slices()
	n := limit
	if one, ok := limit.Int(); !ok || one > 1 {
		n = bounded(limit)
	}
	c.outPicked(flat, ax, n)
	c.out(1, onnxload.Int64, Of(n))
	c.out(2, onnxload.Int64, Of(limit))
	c.out(3, onnxload.Int64, Of(n))
}

// topKAttr has k as an attribute.
func topKAttr(c *call) {
	if c.node.Attr("k") == nil && c.has(1) {
		topK(c) // later writers stamped the old opset
		return
	}
	k := c.needInt("k")
	c.topK(N(k))
}

func topK(c *call) {
	c.needInts(2, 1)
	if k, ok := c.ints(1); ok {
		if len(k) != 1 {
			c.fail("k has %d elements, one is wanted", len(k))
		}
		c.topK(k[0])
		return
	}
	dims, ok := c.dims(0)
	if !ok || len(dims) == 0 {
		c.topK(unknownSize)
		return
	}
	ax := c.axisAttr(-1, len(dims))
	c.topK(bounded(dims[ax]))
}

// topK leaves k elements along axis: their values, and their places.
func (c *call) topK(k Dim) {
	c.need(1)
	s := c.shape(0)
	if s.Ranked {
		if len(s.Dims) == 0 {
			c.check(errScalar)
		}
		ax := c.axisAttr(-1, len(s.Dims))
		checked(checkDim(k, "k"))
		if more, decided := less(s.Dims[ax], k); more && decided {
			c.fail("k is %v for an axis of %v elements", k, s.Dims[ax])
		}
		s = s.with(ax, k)
	}
	c.out(0, c.elem(0), s)
	c.out(1, onnxload.Int64, s)
}
