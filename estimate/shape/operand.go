package shape

import (
	"errors"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// need reports the first of the inputs 0..n-1 that the node does not give.
func (c *call) need(n int) {
	for i := range n {
		if !c.has(i) {
			c.fail("input %d is missing, %d are wanted", i, n)
		}
	}
}

// needInts is need, and also wants integers, where their type is known, from each of
// the inputs at that is given: shapes, axes and indices.
func (c *call) needInts(n int, at ...int) {
	c.need(n)
	for _, i := range at {
		if !c.has(i) {
			continue
		}
		if e := c.elem(i); e != onnxload.Undefined && !e.IsInt() {
			c.fail("input %d is of %v, integers are wanted", i, e)
		}
	}
}

// commonElem returns the element type that inputs, all if none are listed, share: the first known one.
func (c *call) commonElem(inputs ...int) onnxload.DType {
	for i, t := range c.ins {
		if t.Elem != onnxload.Undefined && (len(inputs) == 0 || slices.Contains(inputs, i)) {
			return t.Elem
		}
	}
	return onnxload.Undefined
}

// wantInts returns an integer list attribute that has no default.
func (c *call) wantInts(name string) []int64 {
	v, ok := c.attrInts(name)
	if !ok {
		c.fail("attribute %s is missing", name)
	}
	return v
}

// axisAttr returns the attribute axis in 0..rank-1.
func (c *call) axisAttr(def int64, rank int) int {
	return checked(axis(c.attrInt("axis", def), rank))
}

// axesIn brings axes into 0..rank-1; naming one twice is an error.
func axesIn(axes []int64, rank int) (in []int, err error) {
	for _, a := range axes {
		i, err := axis(a, rank)
		if err != nil {
			return nil, err
		}
		if slices.Contains(in, i) {
			return nil, fmt.Errorf("axis %d is named twice", i)
		}
		in = append(in, i)
	}
	return in, nil
}

// axisSet marks the axes that axesIn returns.
func axisSet(axes []int64, rank int) ([]bool, error) {
	in, err := axesIn(axes, rank)
	set := make([]bool, rank)
	for _, i := range in {
		set[i] = true
	}
	return set, err
}

// axesOf returns the axes that an operator got as attribute or, from the version on
// that moved them there, as input i. given tells whether there are any at all, known
// whether their values are.
func (c *call) axesOf(i int) (axes []int64, given, known bool) {
	if axes, ok := c.attrInts("axes"); ok {
		return axes, true, true
	}
	if i < 0 || !c.has(i) {
		return nil, false, true
	}
	axes, ok := c.int64s(i)
	return axes, true, ok
}

// length returns the number of elements of the one-dimensional input i when known;
// input -1 is that of operators without one.
func (c *call) length(i int) (int, bool) {
	if !c.has(i) {
		return 0, false
	}
	dims, ok := c.dims(i)
	if !ok || len(dims) != 1 {
		return 0, false
	}
	n, ok := dims[0].Int()
	return int(n), ok && n >= 0 && n <= maxRank
}

// shapeOf turns the elements of a shape tensor into dimensions. Symbolic ones are
// taken as they are: they come from dimensions, which are not negative.
func shapeOf(elems []Dim) (Shape, error) {
	if len(elems) > maxRank {
		return Shape{}, fmt.Errorf("a shape of %d dimensions, at most %d are possible", len(elems), maxRank)
	}
	for i, d := range elems {
		if n, ok := d.Int(); ok && n < 0 {
			return Shape{}, fmt.Errorf("dimension %d of the wanted shape is %d", i, n)
		}
	}
	return Of(slices.Clone(elems)...), nil
}

// mergeShape returns what two statements about the same shape say together.
func mergeShape(a, b Shape) (Shape, error) {
	if !a.Ranked {
		return b, nil
	}
	if !b.Ranked {
		return a, nil
	}
	if len(a.Dims) != len(b.Dims) {
		return a, fmt.Errorf("%v and %v where equal shapes are wanted", a, b)
	}
	dims := make([]Dim, len(a.Dims))
	for i := range dims {
		var err error
		if dims[i], err = agree(fmt.Sprintf("dimension %d", i), a.Dims[i], b.Dims[i]); err != nil {
			return a, err
		}
	}
	return Of(dims...), nil
}

// with returns the shape with dimension i replaced.
func (s Shape) with(i int, d Dim) Shape {
	dims := slices.Clone(s.Dims)
	dims[i] = d
	return Of(dims...)
}

// checkDim refuses a dimension that came out as a negative number.
func checkDim(d Dim, what string) (Dim, error) {
	if n, ok := d.Int(); ok && n < 0 {
		return d, fmt.Errorf("%s comes out as %d", what, n)
	}
	return d, nil
}

var errScalar = errors.New("a scalar, which has no axis to work along")

// unary is the rule of operators that map every element of input 0 on its own.
func unary(c *call) {
	c.need(1)
	c.out(0, c.elem(0), c.shape(0))
}

// predicate is unary for operators whose answer is a bool.
func predicate(c *call) {
	c.need(1)
	c.out(0, onnxload.Bool, c.shape(0))
}
