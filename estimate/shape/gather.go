package shape

import "fmt"

// gatherFamily has the operators that read elements at places given by a tensor.
var gatherFamily = family{"", []op{
	{"Gather", 1, gather, gatherEval},
	{"GatherElements", 11, gatherElements, gatherElementsEval},
	{"GatherND", 11, gatherND, nil},
	{"GatherND", 12, gatherND, nil}, // with batch_dims
	{"OneHot", 9, oneHot, oneHotEval},
}}

// gather replaces an axis by the shape of the indices.
func gather(c *call) {
	c.needInts(2, 1)
	data, indices := c.shape(0), c.shape(1)
	if !data.Ranked {
		c.out(0, c.elem(0), Shape{})
		return
	}
	if len(data.Dims) == 0 {
		c.check(errScalar)
	}
	ax := c.axisAttr(0, len(data.Dims))
	if !indices.Ranked {
		c.out(0, c.elem(0), Shape{})
		return
	}
	out := append([]Dim{}, data.Dims[:ax]...)
	out = append(out, indices.Dims...)
	c.out(0, c.elem(0), Of(append(out, data.Dims[ax+1:]...)...))
}

// position brings an index that may count from the end into 0..n-1.
func position(i, n int64) (int, error) {
	if i < -n || i >= n {
		return 0, fmt.Errorf("index %d is outside an axis of %d elements", i, n)
	}
	if i < 0 {
		i += n
	}
	return int(i), nil
}

func gatherEval(c *call) {
	v, indices := c.value(0), c.value(1)
	shape, n := c.outSize()
	at := indices.numbers()
	ax := c.axisAttr(0, len(v.Shape))
	out := v.like(shape, n)
	outer, mid, inner := split3(v.Shape, ax)
	i := 0
	for o := range outer {
		for _, a := range at {
			k := checked(position(a, int64(mid)))
			for j := range inner {
				out.copyElem(i, v, (o*mid+k)*inner+j)
				i++
			}
		}
	}
	c.outConst(0, out)
}

// gatherElements has the shape of the indices, which have the rank of the data.
func gatherElements(c *call) {
	c.needInts(2, 1)
	c.out(0, c.elem(0), c.elementIndices())
}

// elementIndices returns the shape of input 1, indices along the attribute axis of input 0, whose rank they have.
func (c *call) elementIndices() Shape {
	data, indices := c.shape(0), c.shape(1)
	if !data.Ranked {
		return indices
	}
	if len(data.Dims) == 0 {
		c.check(errScalar)
	}
	c.axisAttr(0, len(data.Dims))
	if !indices.Ranked {
		return Of(unknowns(len(data.Dims))...)
	}
	if len(indices.Dims) != len(data.Dims) {
		c.fail("indices %v have not the rank of the data %v", indices, data)
	}
	return indices
}

// along visits the elements of an index tensor of the data's rank: i numbers them, and at
// is the place in the data that has the same coordinates except along the axis,
// where the index is the coordinate.
func (c *call) along(data, indices *Const, ax int, f func(i, at int)) {
	idx := indices.numbers()
	proceedIf(len(data.Shape) == len(indices.Shape))
	for i, d := range indices.Shape {
		if i != ax && d > data.Shape[i] {
			c.fail("indices of %d elements along axis %d, the data has %d", d, i, data.Shape[i])
		}
	}
	step := strides(data.Shape)
	width := step[ax]
	step[ax] = 0
	odometer(indices.Shape, len(idx), 0, step, func(i, at int) {
		f(i, at+checked(position(idx[i], data.Shape[ax]))*width)
	})
}

func gatherElementsEval(c *call) {
	v, indices := c.value(0), c.value(1)
	shape, n := c.outSize()
	ax := c.axisAttr(0, len(v.Shape))
	out := v.like(shape, n)
	c.along(v, indices, ax, func(i, at int) { out.copyElem(i, v, at) })
	c.outConst(0, out)
}

// gatherND takes the last axis of the indices as coordinates in the data, after the
// batch_dims leading axes that both share.
func gatherND(c *call) {
	c.needInts(2, 1)
	data, indices := c.shape(0), c.shape(1)
	if !data.Ranked || !indices.Ranked {
		c.out(0, c.elem(0), Shape{})
		return
	}
	batch := int(max(min(c.attrInt("batch_dims", 0), maxRank+1), -1))
	q, r := len(indices.Dims), len(data.Dims)
	if q == 0 || r == 0 || batch < 0 || batch >= min(q, r) {
		c.fail("data %v and indices %v with %d batch dimensions", data, indices, c.attrInt("batch_dims", 0))
	}
	width, ok := indices.Dims[q-1].Int()
	if !ok {
		c.out(0, c.elem(0), Shape{})
		return
	}
	if width < 1 || width > int64(r-batch) {
		c.fail("indices of %d coordinates for data %v with %d batch dimensions", width, data, batch)
	}
	out := append([]Dim{}, indices.Dims[:q-1]...)
	c.out(0, c.elem(0), Of(append(out, data.Dims[batch+int(width):]...)...))
}

// eachRow visits the rows of an index tensor whose last axis holds coordinates of the data: i numbers the rows, and at
// is where the block of size elements that the row names begins.
func eachRow(data, indices *Const, f func(i, at, size int)) {
	idx := indices.numbers()
	proceedIf(len(indices.Shape) > 0)
	width := int(indices.Shape[len(indices.Shape)-1])
	proceedIf(width > 0 && width <= len(data.Shape))
	if data.Len() == 0 {
		return // rows of nothing
	}
	step := strides(data.Shape)
	for i := range len(idx) / width {
		at := 0
		for j, x := range idx[i*width : (i+1)*width] {
			at += checked(position(x, data.Shape[j])) * step[j]
		}
		f(i, at, step[width-1])
	}
}

// oneHot inserts an axis of depth elements; the result has the type of the values.
func oneHot(c *call) {
	c.need(3)
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(2), Shape{})
		return
	}
	ax := c.axisAttr(-1, len(dims)+1)
	depth := unknownSize
	if n, ok := c.scalarInt(1); ok {
		depth = N(n)
	} else if d, ok := c.ints(1); ok && len(d) == 1 {
		depth = d[0]
	}
	depth = checked(checkDim(depth, "depth"))
	out := append([]Dim{}, dims[:ax]...)
	out = append(out, depth)
	c.out(0, c.elem(2), Of(append(out, dims[ax:]...)...))
}

func oneHotEval(c *call) {
	in := c.values(3)
	shape, n := c.outSize()
	proceedIf(in[2].Len() == 2)
	idx := in[0].numbers()
	ax := c.axisAttr(-1, len(shape))
	out := in[2].like(shape, n)
	_, depth, inner := split3(shape, ax)
	for i := range n {
		on := 0
		k := idx[i/(depth*inner)*inner+i%inner]
		if k < 0 {
			k += int64(depth)
		}
		if int64(i/inner%depth) == k {
			on = 1
		}
		out.copyElem(i, in[2], on)
	}
	c.outConst(0, out)
}
