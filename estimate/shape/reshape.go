package shape

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// reshapeFamily has the operators that change the shape and keep the elements in order, and
// those that ask for the shape.
var reshapeFamily = family{"", []op{
	{"Reshape", 1, reshapeAttr, reshapeEval},
	{"Reshape", 5, reshape, reshapeEval},
	{"Flatten", 1, flatten, reshapeEval},
	{"Squeeze", 1, squeezeAttr, reshapeEval},
	{"Squeeze", 13, squeeze, reshapeEval},
	{"Unsqueeze", 1, unsqueezeAttr, reshapeEval},
	{"Unsqueeze", 13, unsqueeze, reshapeEval},
	{"Identity", 1, identity, reshapeEval},
	{"Shape", 1, shapeOp, nil},
	{"Shape", 15, shapeRange, nil},
	{"Size", 1, size, nil},
}}

// reshapeEval keeps the elements and takes the shape that infer found.
func reshapeEval(c *call) {
	v := c.value(0)
	shape, n := c.outSize()
	proceedIf(n == v.Len())
	c.outConst(0, &Const{Elem: v.Elem, Shape: shape, Ints: v.Ints, Floats: v.Floats})
}

func identity(c *call) {
	c.need(1)
	likeInput(c)
}

// reshapeAttr has the shape as an attribute.
func reshapeAttr(c *call) {
	ints, ok := c.attrInts("shape")
	if !ok {
		if c.has(1) {
			reshape(c) // later writers stamped the old opset
			return
		}
		c.fail("attribute shape is missing")
	}
	c.reshapeTo(toDims(ints))
}

func reshape(c *call) {
	c.needInts(2, 1)
	target, ok := c.ints(1)
	if ok {
		c.reshapeTo(target)
		return
	}
	s := Shape{}
	if n, ok := c.length(1); ok {
		s = Of(unknowns(n)...)
		if n == 1 { // one dimension holds all elements
			if in := c.shape(0); in.Ranked {
				s.Dims[0] = Product(in.Dims...)
			}
		}
	}
	c.out(0, c.elem(0), s)
}

// reshapeTo is Reshape with a known target: 0 copies the input's dimension unless allowzero
// says that it means 0, and one -1 takes what is left.
func (c *call) reshapeTo(target []Dim) {
	c.need(1)
	if len(target) > maxRank {
		c.fail("a shape of %d dimensions, at most %d are possible", len(target), maxRank)
	}
	dims, ranked := c.dims(0)
	allowZero := c.attrInt("allowzero", 0) != 0
	out := make([]Dim, len(target))
	copied := make([]bool, len(dims)) // dimensions of the input that the target repeats
	free, zero := -1, false
	var rest []Dim // dimensions of the target that are not copies
	for i, d := range target {
		out[i] = d
		n, known := d.Int()
		switch {
		case known && n == -1:
			if free >= 0 {
				c.fail("shape %v has more than one -1", Of(target...))
			}
			free = i
		case known && n < 0:
			c.fail("shape %v has a dimension below -1", Of(target...))
		case known && n == 0 && !allowZero:
			if !ranked {
				out[i] = unknownSize
				break
			}
			if i >= len(dims) {
				c.fail("shape %v copies dimension %d of %v, which has none", Of(target...), i, c.shape(0))
			}
			out[i], copied[i] = dims[i], true
		default:
			zero = zero || known && n == 0
			rest = append(rest, d)
		}
	}
	if zero && free >= 0 {
		c.fail("shape %v has both 0 and -1, which then could be anything", Of(target...))
	}
	if free < 0 && ranked && !slices.ContainsFunc(dims, Dim.Open) {
		free, rest = soleUnknown(out, rest)
	}
	if ranked {
		left, right := cancel(dims, copied, rest)
		have, want := Product(left...), Product(right...)
		h, okH := have.Int()
		w, okW := want.Int()
		switch {
		case free >= 0 && okW && w == 0 && out[free].Open():
			// An unknown dimension beside a 0 stays one.
		case free >= 0 && okW && w == 0:
			c.fail("shape %v has 0 elements beside the -1", Of(target...))
		case free >= 0:
			if okH && okW && h%w != 0 {
				c.fail("%v does not divide into %v", c.shape(0), Of(target...))
			}
			out[free] = FloorDiv(have, want)
		case okH && okW && h != w && !hasZero(dims, copied):
			c.fail("%v has not as many elements as %v", c.shape(0), Of(target...))
		}
	} else if free >= 0 {
		out[free] = unknownSize
	}
	c.out(0, c.elem(0), Of(out...))
}

// soleUnknown finds the only dimension of a target that is not known, which then
// is what is left, as for -1. It returns its place, or -1, and rest without it.
func soleUnknown(out, rest []Dim) (int, []Dim) {
	at := -1
	for i, d := range out {
		if !d.Open() {
			continue
		}
		if at >= 0 {
			return -1, rest
		}
		at = i
	}
	if at < 0 {
		return at, rest
	}
	return at, slices.DeleteFunc(rest, func(d Dim) bool { return d.Open() })
}

// hasZero reports whether one of the marked dimensions is 0, so that there are no
// elements to count.
func hasZero(dims []Dim, marked []bool) bool {
	for i, d := range dims {
		if n, ok := d.Int(); ok && n == 0 && marked[i] {
			return true
		}
	}
	return false
}

// cancel removes from two products the dimensions that both have: those of the input
// that were copied, and those that are the same expression. It makes a division
// possible where the product of all would not divide as a sum.
func cancel(dims []Dim, copied []bool, rest []Dim) (left, right []Dim) {
	used := make([]bool, len(rest))
next:
	for i, d := range dims {
		if copied[i] {
			continue
		}
		if n, ok := d.Int(); !ok || n != 0 {
			for j, e := range rest {
				if !used[j] && d.Equal(e) {
					used[j] = true
					continue next
				}
			}
		}
		left = append(left, d)
	}
	for j, e := range rest {
		if !used[j] {
			right = append(right, e)
		}
	}
	return left, right
}

// flatten makes a matrix of the dimensions before axis and those from it on; axis may be
// the rank, and counts from the end since opset 11.
func flatten(c *call) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(0), Of(unknowns(2)...))
		return
	}
	ax := c.attrInt("axis", 1)
	if ax < -int64(len(dims)) || ax > int64(len(dims)) {
		c.fail("axis %d is outside a tensor of rank %d", ax, len(dims))
	}
	if ax < 0 {
		ax += int64(len(dims))
	}
	c.out(0, c.elem(0), Of(Product(dims[:ax]...), Product(dims[ax:]...)))
}

func squeezeAttr(c *call) { c.squeeze(-1) }

func squeeze(c *call) { c.squeeze(1) }

// squeeze drops the axes named, or all that are 1. A dimension that is not a number is then taken for more than 1, as
// exporters that know better name the axes. An axis that is named must be 1 by the standard; torch.squeeze(x, 1) leaves
// one that is not, and torch.onnx.export writes such calls as they are, so it stays here, with a note.
func (c *call) squeeze(axesInput int) {
	c.needInts(1, axesInput)
	axes, given, known := c.axesOf(axesInput)
	dims, ok := c.dims(0)
	if !ok || !known {
		s := Shape{}
		if n, okN := c.length(axesInput); ok && okN && n <= len(dims) {
			s = Of(unknowns(len(dims) - n)...)
		}
		c.out(0, c.elem(0), s)
		return
	}
	gone := checked(axisSet(axes, len(dims)))
	for i, d := range dims {
		n, isNum := d.Int()
		switch {
		case gone[i] && isNum && n != 1:
			c.note("axis %d of %v is not 1, so it stays, as torch.squeeze leaves it", i, c.shape(0))
			gone[i] = false
		case !given:
			gone[i] = isNum && n == 1
		}
	}
	c.out(0, c.elem(0), reduceDims(dims, gone, false))
}

func unsqueezeAttr(c *call) {
	if c.node.Attr("axes") == nil && !c.has(1) {
		c.fail("attribute axes is missing")
	}
	c.unsqueeze()
}

func unsqueeze(c *call) {
	if c.node.Attr("axes") == nil {
		c.need(2)
	}
	c.unsqueeze()
}

// unsqueeze inserts ones, at the axes that they have in the result.
func (c *call) unsqueeze() {
	c.needInts(1, 1)
	axes, _, known := c.axesOf(1)
	dims, ok := c.dims(0)
	if !ok || !known {
		s := Shape{}
		if n, okN := c.length(1); ok && okN {
			s = Of(unknowns(len(dims) + n)...)
		}
		c.out(0, c.elem(0), s)
		return
	}
	if len(axes)+len(dims) > maxRank {
		c.fail("rank %d is above %d", len(axes)+len(dims), maxRank)
	}
	inserted := checked(axisSet(axes, len(dims)+len(axes)))
	out := make([]Dim, 0, len(inserted))
	for _, is := range inserted {
		if is {
			out = append(out, N(1))
			continue
		}
		out = append(out, dims[0])
		dims = dims[1:]
	}
	c.out(0, c.elem(0), Of(out...))
}

func shapeOp(c *call) { c.shapeValue(false) }

// shapeRange has start and end, clamped to the rank.
func shapeRange(c *call) { c.shapeValue(true) }

func (c *call) shapeValue(ranged bool) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, onnxload.Int64, Of(unknowns(1)...))
		return
	}
	if ranged {
		rank := int64(len(dims))
		clamp := func(n int64) int64 {
			if n < 0 {
				n += rank
			}
			return min(max(n, 0), rank)
		}
		start, end := clamp(c.attrInt("start", 0)), clamp(c.attrInt("end", rank))
		dims = dims[start:max(start, end)]
	}
	c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{int64(len(dims))}, Ints: append([]Dim{}, dims...)})
}

func size(c *call) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, onnxload.Int64, Of())
		return
	}
	c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{}, Ints: []Dim{Product(dims...)}})
}
