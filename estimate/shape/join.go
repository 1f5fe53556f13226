package shape

import (
	"fmt"
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
func concatV1(c *call) error { return c.concat(c.attrInt("axis", 1)) }

func concat(c *call) error {
	ax, err := c.needInt("axis")
	if err != nil {
		return err
	}
	return c.concat(ax)
}

func (c *call) concat(at int64) error {
	if err := c.need(max(1, len(c.node.In))); err != nil {
		return err
	}
	out := Shape{}
	sum := N(0)
	for i := range c.node.In {
		s := c.shape(i)
		if !s.Ranked {
			sum = unknownSize
			continue
		}
		if len(s.Dims) == 0 {
			return errScalar
		}
		ax, err := axis(at, len(s.Dims))
		if err != nil {
			return err
		}
		sum = Add(sum, s.Dims[ax])
		if out, err = mergeShape(out, s.with(ax, N(0))); err != nil {
			return fmt.Errorf("input %d: %w", i, err)
		}
	}
	if out.Ranked {
		ax, err := axis(at, len(out.Dims))
		if err != nil {
			return err
		}
		out = out.with(ax, sum)
	}
	c.out(0, c.firstElem(), out)
	return nil
}

func concatEval(c *call) error {
	in, ok := c.operands(len(c.node.In))
	shape, n, okOut := c.outSize()
	if !ok || !okOut || len(in) == 0 || !sameKind(in...) {
		return nil
	}
	ax, err := axis(c.attrInt("axis", 1), len(shape))
	if err != nil {
		return err
	}
	out := in[0].like(shape, n)
	_, width, inner := split3(shape, ax)
	before := 0
	for _, v := range in {
		if len(v.Shape) != len(shape) {
			return nil
		}
		part := int(v.Shape[ax]) * inner
		for i := range v.Len() {
			out.copyElem(i/part*width*inner+before+i%part, v, i)
		}
		before += part
	}
	c.outConst(0, out)
	return nil
}

// splitV1 has the lengths as attribute or as an input of the data's type, which is a float.
func splitV1(c *call) error {
	if lengths, ok := c.attrInts("split"); ok {
		return c.split(toDims(lengths), false)
	}
	if !c.has(1) || c.elem(1).IsInt() {
		return splitInput(c)
	}
	given, ok := c.floats(1)
	if !ok {
		return c.split(nil, false)
	}
	lengths := make([]Dim, len(given))
	for i, x := range given {
		if x != math.Trunc(x) || math.Abs(x) > math.MaxInt32 {
			return fmt.Errorf("a part has %g elements", x)
		}
		lengths[i] = N(int64(x))
	}
	return c.split(lengths, false)
}

// splitAttr has the lengths as an attribute; without it the parts are equal.
func splitAttr(c *call) error {
	lengths, ok := c.attrInts("split")
	if !ok {
		return c.split(nil, true)
	}
	return c.split(toDims(lengths), false)
}

// splitInput has the lengths as an input; without it the parts are equal.
func splitInput(c *call) error {
	if err := c.needInts(1, 1); err != nil {
		return err
	}
	if !c.has(1) {
		return c.split(nil, true)
	}
	lengths, ok := c.ints(1)
	if !ok {
		return c.split(nil, false)
	}
	return c.split(lengths, false)
}

// splitCount also has num_outputs, and then the last part may be smaller.
func splitCount(c *call) error {
	n := c.attrInt("num_outputs", int64(len(c.node.Out)))
	if c.has(1) {
		return splitInput(c)
	}
	if n != int64(len(c.node.Out)) {
		return fmt.Errorf("attribute num_outputs is %d for %d outputs", n, len(c.node.Out))
	}
	dims, ok := c.dims(0)
	if !ok {
		return c.split(nil, true)
	}
	ax, err := c.axisAttr(0, len(dims))
	if err != nil || n == 0 {
		return err
	}
	part := CeilDiv(dims[ax], N(n))
	if part.Equal(FloorDiv(dims[ax], N(n))) {
		return c.split(nil, true)
	}
	lengths := []Dim{part}
	left := Sub(dims[ax], part)
	if n == 2 {
		lengths = append(lengths, left)
	}
	for ; int64(len(lengths)) < n; left = Sub(left, part) {
		lengths = append(lengths, positive(atMost(part, left)))
	}
	return c.split(lengths, false)
}

// split cuts along axis into parts of these lengths; equal asks for equal ones, otherwise
// nil says that they are not known.
func (c *call) split(lengths []Dim, equal bool) error {
	if err := c.need(1); err != nil {
		return err
	}
	dims, ok := c.dims(0)
	if !ok {
		for i := range c.node.Out {
			c.out(i, c.elem(0), Shape{})
		}
		return nil
	}
	ax, err := c.axisAttr(0, len(dims))
	if err != nil {
		return err
	}
	n := int64(len(c.node.Out))
	if n == 0 {
		return nil
	}
	if lengths == nil && equal {
		if d, ok := dims[ax].Int(); ok && d%n != 0 {
			return fmt.Errorf("axis %d of %v does not split into %d equal parts", ax, c.shape(0), n)
		}
		lengths = slices.Repeat([]Dim{FloorDiv(dims[ax], N(n))}, int(n))
	} else if lengths == nil {
		for i := range c.node.Out {
			c.out(i, c.elem(0), c.shape(0).with(ax, unknownSize))
		}
		return nil
	}
	if int64(len(lengths)) != n {
		return fmt.Errorf("%d lengths for %d outputs", len(lengths), n)
	}
	sum := N(0)
	for i, d := range lengths {
		if _, err := checkDim(d, "a part"); err != nil {
			return err
		}
		sum = Add(sum, d)
		c.out(i, c.elem(0), c.shape(0).with(ax, d))
	}
	if _, err := agree("the size", sum, dims[ax]); err != nil {
		return fmt.Errorf("the parts of axis %d have %v elements together, it has %v", ax, sum, dims[ax])
	}
	return nil
}

func splitEval(c *call) error {
	v := c.constant(0)
	if v == nil || len(v.Shape) == 0 {
		return nil
	}
	ax, err := c.axisAttr(0, len(v.Shape))
	if err != nil {
		return err
	}
	own, start := strides(v.Shape), 0
	for i := range c.node.Out {
		// A part without elements but inside the output list still advances nothing.
		shape, ok := c.outs[i].Shape.Ints()
		n, fits := sizeOf(shape)
		if !ok || !fits {
			return nil
		}
		c.outConst(i, v.pick(shape, n, start, own))
		start += int(shape[ax]) * own[ax]
	}
	return nil
}
