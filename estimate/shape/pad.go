package shape

import "fmt"

// padFamily has the operator that puts a margin around a tensor.
var padFamily = family{"", []op{
	{"Pad", 1, padAttr("paddings"), padEval},
	{"Pad", 2, padAttr("pads"), padEval},
	{"Pad", 11, padInput, padEval},
	{"Pad", 18, padInput, padEval}, // with axes
}}

// padAttr has the margins as an attribute of that name: all begins, then all ends.
func padAttr(name string) func(*call) {
	return func(c *call) {
		if c.node.Attr(name) == nil {
			if c.has(1) {
				padInput(c) // later writers stamped the old opset
				return
			}
			c.fail("attribute %s is missing", name)
		}
		c.pad()
	}
}

func padInput(c *call) {
	c.needInts(2, 1, 3)
	c.pad()
}

func (c *call) pad() {
	dims, ok := c.likeInput(0)
	if !ok {
		return
	}
	begin, end := c.margins(len(dims))
	if begin == nil {
		c.out(0, c.elem(0), Of(unknowns(len(dims))...))
		return
	}
	out := make([]Dim, len(dims))
	for i, d := range dims {
		out[i] = checked(checkDim(Add(Add(d, begin[i]), end[i]), fmt.Sprintf("padded dimension %d", i)))
	}
	c.out(0, c.elem(0), Of(out...))
}

// margins returns the elements to add, or remove when negative, before and after every
// axis; nil when they are not known.
func (c *call) margins(rank int) (begin, end []Dim) {
	pads, ok := c.ints(1)
	for _, name := range []string{"pads", "paddings"} {
		if v, has := c.attrInts(name); has {
			pads, ok = toDims(v), true
		}
	}
	if !ok {
		return nil, nil
	}
	at := make([]int64, rank)
	for i := range at {
		at[i] = int64(i)
	}
	if c.has(3) {
		if at, ok = c.int64s(3); !ok {
			return nil, nil
		}
	}
	if len(pads) != 2*len(at) {
		c.fail("%d pads for %d axes, %d are wanted", len(pads), len(at), 2*len(at))
	}
	begin, end = make([]Dim, rank), make([]Dim, rank)
	for i, ax := range checked(axesIn(at, rank)) {
		begin[ax], end[ax] = pads[i], pads[len(at)+i]
	}
	return begin, end
}

// padEval fills the margin with the value: mode constant alone.
func padEval(c *call) {
	v := c.value(0)
	shape, n := c.outSize()
	proceedIf(len(v.Shape) > 0 && c.attrStr("mode", "constant") == "constant")
	begin, _ := c.margins(len(v.Shape))
	if begin == nil {
		return
	}
	fill := v.like([]int64{}, 1)
	if given := c.constant(2); given != nil && given.Len() == 1 && sameKind(v, given) {
		fill = given
	} else if c.has(2) {
		return
	} else if v.isFloat() {
		fill.Floats[0] = c.attrFloat("value", 0)
	}
	// from holds, for every axis, the place in v of each place of the result; -1 is margin.
	from := make([][]int, len(shape))
	own := strides(v.Shape)
	for i, size := range shape {
		b, ok := begin[i].Int()
		if !ok {
			return
		}
		for j := int64(0); j < size && n > 0; j++ {
			k := j - b
			if k < 0 || k >= v.Shape[i] {
				k = -1
			} else {
				k *= int64(own[i])
			}
			from[i] = append(from[i], int(k))
		}
	}
	out := v.like(shape, n)
	for i, d := range strides(shape) {
		own[i] = d
	}
	for i := range n {
		at, margin := 0, false
		for ax, size := range shape {
			k := from[ax][i/own[ax]%int(size)]
			margin = margin || k < 0
			at += k
		}
		if margin {
			out.copyElem(i, fill, 0)
		} else {
			out.copyElem(i, v, at)
		}
	}
	c.outConst(0, out)
}
