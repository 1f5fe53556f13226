package shape

import (
	"math"
	"slices"
)

// joinFamily has the operators that join tensors along an axis and cut them apart again.
var joinFamily = family{"", []op{
	{"Concat", 1, concatV1, concatEval},
	{"Concat", 4, concat, concatEval},
	{"Split", 1, splitV1, splitEval},
	{"Split", 2, splitAttr, splitEval},
	{"Split", 13, splitInput, splitEval},
	{"Split", 18, splitCount, splitEval},
}}

// concatV1 has an axis of 1 by default.
func concatV1(c *call) { c.concat(c.attrInt("axis", 1)) }

func concat(c *call) {
	c.concat(c.needInt("axis"))
}

func (c *call) concat(at int64) {
	c.need(max(1, len(c.node.In)))
	out := Shape{}
	sum := N(0)
	for i := range c.node.In {
		s := c.shape(i)
		if !s.Ranked {
			sum = unknownSize
			continue
		}
		if len(s.Dims) == 0 {
			c.check(errScalar)
		}
		ax := checked(axis(at, len(s.Dims)))
		sum = Add(sum, s.Dims[ax])
		var err error
		if out, err = mergeShape(out, s.with(ax, N(0))); err != nil {
			c.fail("input %d: %w", i, err)
		}
	}
	if out.Ranked {
		ax := checked(axis(at, len(out.Dims)))
		out = out.with(ax, sum)
	}
	c.out(0, c.commonElem(), out)
}

func concatEval(c *call) {
	in := c.values(len(c.node.In))
	shape, n := c.outSize()
	proceedIf(sameKind(in...))
	ax := checked(axis(c.attrInt("axis", 1), len(shape)))
	out := in[0].like(shape, n)
	_, width, inner := split3(shape, ax)
	before := 0
	for _, v := range in {
		proceedIf(len(v.Shape) == len(shape))
		part := int(v.Shape[ax]) * inner
		for i := range v.Len() {
			out.copyElem(i/part*width*inner+before+i%part, v, i)
		}
		before += part
	}
	c.outConst(0, out)
}

// splitV1 has the lengths as attribute or as an input of the data's type, which is a float.
func splitV1(c *call) {
	if lengths, ok := c.attrInts("split"); ok {
		c.split(toDims(lengths), false)
		return
	}
	if !c.has(1) || c.elem(1).IsInt() {
		splitInput(c)
		return
	}
	given, ok := c.floats(1)
	if !ok {
		c.split(nil, false)
		return
	}
	lengths := make([]Dim, len(given))
	for i, x := range given {
		if x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
			c.fail("a part has %g elements", x)
		}
		lengths[i] = N(int64(x))
	}
	c.split(lengths, false)
}

// splitAttr has the lengths as an attribute; without it the parts are equal.
func splitAttr(c *call) {
	lengths, ok := c.attrInts("split")
	if !ok {
		c.split(nil, true)
		return
	}
	c.split(toDims(lengths), false)
}

// splitInput has the lengths as an input; without it the parts are equal.
func splitInput(c *call) {
	c.needInts(1, 1)
	if !c.has(1) {
		c.split(nil, true)
		return
	}
	lengths, ok := c.ints(1)
	if !ok {
		c.split(nil, false)
		return
	}
	c.split(lengths, false)
}

// splitCount also has num_outputs, and then the last part may be smaller.
func splitCount(c *call) {
	n := c.attrInt("num_outputs", int64(len(c.node.Out)))
	if c.has(1) {
		splitInput(c)
		return
	}
	if n != int64(len(c.node.Out)) {
		c.fail("attribute num_outputs is %d for %d outputs", n, len(c.node.Out))
	}
	dims, ok := c.dims(0)
	if !ok {
		c.split(nil, true)
		return
	}
	ax := c.axisAttr(0, len(dims))
	if n == 0 {
		return
	}
	part := CeilDiv(dims[ax], N(n))
	if part.Equal(FloorDiv(dims[ax], N(n))) {
		c.split(nil, true)
		return
	}
	lengths := []Dim{part}
	left := Sub(dims[ax], part)
	if n == 2 {
		lengths = append(lengths, left)
	}
	for ; int64(len(lengths)) < n; left = Sub(left, part) {
		lengths = append(lengths, positive(atMost(part, left)))
	}
	c.split(lengths, false)
}

// split cuts along axis into parts of these lengths; equal asks for equal ones, otherwise
// nil says that they are not known.
func (c *call) split(lengths []Dim, equal bool) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		for i := range c.node.Out {
			c.out(i, c.elem(0), Shape{})
		}
		return
	}
	ax := c.axisAttr(0, len(dims))
	n := int64(len(c.node.Out))
	if n == 0 {
		return
	}
	if lengths == nil && equal {
		if d, ok := dims[ax].Int(); ok && d%n != 0 {
			c.fail("axis %d of %v does not split into %d equal parts", ax, c.shape(0), n)
		}
		lengths = slices.Repeat([]Dim{FloorDiv(dims[ax], N(n))}, int(n))
	} else if lengths == nil {
		for i := range c.node.Out {
			c.out(i, c.elem(0), c.shape(0).with(ax, unknownSize))
		}
		return
	}
	if int64(len(lengths)) != n {
		c.fail("%d lengths for %d outputs", len(lengths), n)
	}
	sum := N(0)
	for i, d := range lengths {
		checked(checkDim(d, "a part"))
		sum = Add(sum, d)
		c.out(i, c.elem(0), c.shape(0).with(ax, d))
	}
	if _, err := agree("the size", sum, dims[ax]); err != nil {
		c.fail("the parts of axis %d have %v elements together, it has %v", ax, sum, dims[ax])
	}
}

func splitEval(c *call) {
	v := c.constant(0)
	if v == nil || len(v.Shape) == 0 {
		return
	}
	ax := c.axisAttr(0, len(v.Shape))
	own, start := strides(v.Shape), 0
	for i := range c.node.Out {
		// A part without elements but inside the output list still advances nothing.
		shape, ok := c.outs[i].Shape.Ints()
		n, fits := sizeOf(shape)
		if !ok || !fits {
			return
		}
		c.outConst(i, v.pick(shape, n, start, own))
		start += int(shape[ax]) * own[ax]
	}
}
