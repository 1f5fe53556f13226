package shape

import (
	"fmt"
	"math"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// anyRank is the upper limit of rules that take tensors of any rank.
const anyRank = math.MaxInt

// ranked returns the dimensions of input i and whether its rank is known. A known
// rank outside least..most is an error.
func (c *call) ranked(i, least, most int) ([]Dim, bool) {
	dims, ok := c.dims(i)
	if ok && (len(dims) < least || len(dims) > most) {
		want := fmt.Sprintf("%d to %d", least, most)
		switch most {
		case least:
			want = fmt.Sprint(least)
		case anyRank:
			want = fmt.Sprintf("at least %d", least)
		}
		c.fail("input %d has %d dimensions, wanted %s", i, len(dims), want)
	}
	return dims, ok
}

// likeInput begins a rule whose result has the element type of input 0: output 0 gets it, with no shape yet. It returns
// the input's dimensions, of which there are at least so many, and whether they are known.
func (c *call) likeInput(least int) ([]Dim, bool) {
	c.need(1)
	c.out(0, c.elem(0), Shape{})
	return c.ranked(0, least, anyRank)
}

// ofRank returns the dimensions of input i, the least unknown ones where its rank is not known.
func (c *call) ofRank(i, least, most int) []Dim {
	dims, ok := c.ranked(i, least, most)
	if !ok {
		dims = unknowns(least)
	}
	return dims
}

// unknowns returns n dimensions of which nothing is known.
func unknowns(n int) []Dim { return slices.Repeat([]Dim{unknownSize}, n) }

// agree returns the dimension that a and b must both be, the better known of the
// two. Different numbers are an error.
func agree(what string, a, b Dim) (Dim, error) {
	x, okA := a.Int()
	y, okB := b.Int()
	switch {
	case okA && okB && x != y:
		return a, fmt.Errorf("%s is both %d and %d", what, x, y)
	case okA, a.ByData() && !okB:
		return a, nil
	}
	return b, nil
}

// agreeAll brings all dimensions to the same by agree.
func agreeAll(what string, first Dim, more ...Dim) (Dim, error) {
	for _, d := range more {
		var err error
		if first, err = agree(what, first, d); err != nil {
			return first, err
		}
	}
	return first, nil
}

// divide returns d / by, where d counts whole groups of by.
func divide(what string, d Dim, by int64) (Dim, error) {
	if by <= 0 {
		return d, fmt.Errorf("%s is divided by %d, wanted a positive number", what, by)
	}
	if n, ok := d.Int(); ok && n%by != 0 {
		return d, fmt.Errorf("%s %d is no multiple of %d", what, n, by)
	}
	return FloorDiv(d, N(by)), nil
}

// needEach reports the first of these inputs that the node does not give. It is for operators
// with optional inputs before required ones.
func (c *call) needEach(inputs ...int) {
	for _, i := range inputs {
		if !c.has(i) {
			c.fail("input %d is missing", i)
		}
	}
}

// needInt returns an integer attribute that the operator requires.
func (c *call) needInt(name string) int64 {
	a := c.node.Attr(name)
	if a == nil {
		c.fail("attribute %s is missing", name)
	}
	if a.Type != onnxload.AttrInt {
		c.fail("attribute %s is not an integer", name)
	}
	return a.Int
}

// positiveInt returns an integer attribute, or def when it is absent; it must be above 0.
func (c *call) positiveInt(name string, def int64) int64 {
	n := c.attrInt(name, def)
	if n <= 0 {
		c.fail("attribute %s is %d, wanted a positive number", name, n)
	}
	return n
}

// perAxis returns an integer list attribute with one number for each of n axes, or
// def n times when it is absent or empty. No number may be below least.
func (c *call) perAxis(name string, n int, def, least int64) []int64 {
	vs, ok := c.attrInts(name)
	if !ok || len(vs) == 0 {
		vs = make([]int64, n)
		for i := range vs {
			vs[i] = def
		}
	}
	if len(vs) != n {
		c.fail("attribute %s has %d numbers, wanted %d", name, len(vs), n)
	}
	for _, v := range vs {
		if v < least {
			c.fail("attribute %s has %d, wanted at least %d", name, v, least)
		}
	}
	return vs
}

// attrElem returns the element type that an integer attribute names, or def when
// it is absent.
func (c *call) attrElem(name string, def onnxload.DType) onnxload.DType {
	v := c.attrInt(name, int64(def))
	if v < 0 || v > math.MaxUint8 || v != int64(def) && !onnxload.DType(v).Valid() {
		c.fail("attribute %s is %d, which is no element type", name, v)
	}
	return onnxload.DType(v)
}

// scalar returns the only element of the constant integer input i, and whether
// it is known.
func (c *call) scalar(i int) (Dim, bool) {
	v, ok := c.ints(i)
	if !ok {
		return Dim{}, false
	}
	if len(v) != 1 {
		c.fail("input %d has %d elements, wanted one", i, len(v))
	}
	return v[0], true
}

// size returns the only element of the constant integer input i as a dimension,
// which may not be below least; an unknown dimension when the value is not known.
func (c *call) size(i int, least int64) Dim {
	d, ok := c.scalar(i)
	if !ok {
		return unknownSize
	}
	if n, isInt := d.Int(); isInt && n < least {
		c.fail("input %d is %d, wanted at least %d", i, n, least)
	}
	return d
}

// sizes returns the elements of the constant integer input i as dimensions, and
// whether they are known. None may be negative.
func (c *call) sizes(i int) ([]Dim, bool) {
	ds, ok := c.ints(i)
	for _, d := range ds {
		if n, isInt := d.Int(); isInt && n < 0 {
			c.fail("input %d has the negative size %d", i, n)
		}
	}
	return ds, ok
}
