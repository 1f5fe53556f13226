package shape

// arrangeFamily has the operators that move and repeat elements by a pattern that does not depend on
// data.
var arrangeFamily = family{"", []op{
	{"Transpose", 1, transpose, transposeEval},
	{"Expand", 8, expand, expandEval},
	{"Tile", 1, tileV1, nil},
	{"Tile", 6, tile, tileEval},
	{"DepthToSpace", 1, depthToSpace, nil},
	{"SpaceToDepth", 1, spaceToDepth, nil},
	{"ReverseSequence", 10, reverseSequence, nil},
	{"Trilu", 14, trilu, nil},
}}

// transpose permutes the axes; without perm it reverses them.
func transpose(c *call) {
	c.need(1)
	dims, ok := c.dims(0)
	if !ok {
		s := Shape{}
		if given, has := c.attrInts("perm"); has && len(given) <= maxRank {
			s = Of(unknowns(len(given))...)
		}
		c.out(0, c.elem(0), s)
		return
	}
	out := make([]Dim, len(dims))
	for i, a := range c.perm(len(dims)) {
		out[i] = dims[a]
	}
	c.out(0, c.elem(0), Of(out...))
}

// perm returns the permutation of a Transpose of that rank.
func (c *call) perm(rank int) []int {
	perm, ok := c.attrInts("perm")
	if !ok {
		out := make([]int, rank)
		for i := range out {
			out[i] = rank - 1 - i
		}
		return out
	}
	if len(perm) != rank {
		c.fail("attribute perm has %d axes for a tensor of rank %d", len(perm), rank)
	}
	in, err := axesIn(perm, rank)
	if err != nil {
		c.fail("attribute perm: %w", err)
	}
	return in
}

func transposeEval(c *call) {
	v := c.value(0)
	shape, n := c.outSize()
	perm := c.perm(len(v.Shape))
	own := strides(v.Shape)
	step := make([]int, len(perm))
	for i, a := range perm {
		step[i] = own[a]
	}
	c.outConst(0, v.pick(shape, n, 0, step))
}

// expand stretches the input to a shape, and the shape to the input: a 1 in it keeps
// the input's dimension.
func expand(c *call) {
	c.needInts(2, 1)
	in := c.shape(0)
	target, ok := c.ints(1)
	if !ok {
		s := Shape{}
		if n, ok := c.length(1); ok && in.Ranked {
			s = checked(broadcast(in, Of(unknowns(n)...)))
		}
		c.out(0, c.elem(0), s)
		return
	}
	c.out(0, c.elem(0), checked(broadcast(in, checked(shapeOf(target)))))
}

func expandEval(c *call) {
	v := c.value(0)
	shape, n := c.outSize()
	c.outConst(0, v.expand(shape, n))
}

// tileV1 repeats along one axis.
func tileV1(c *call) {
	if !c.has(2) {
		tile(c) // later writers stamped the old opset
		return
	}
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(0), Shape{})
		return
	}
	times, okT := c.scalarInt(1)
	at, okA := c.scalarInt(2)
	if !okT || !okA {
		c.out(0, c.elem(0), Of(unknowns(len(dims))...))
		return
	}
	ax := checked(axis(at, len(dims)))
	d := checked(checkDim(Mul(dims[ax], N(times)), "the repeated dimension"))
	c.out(0, c.elem(0), c.shape(0).with(ax, d))
}

// scalarInt returns the single element of input i as an integer; Tile and others had it as
// a float once.
func (c *call) scalarInt(i int) (int64, bool) {
	if f, ok := c.floats(i); ok && len(f) == 1 && f[0] == float64(int64(f[0])) {
		return int64(f[0]), true
	}
	n, ok := c.int64s(i)
	if !ok || len(n) != 1 {
		return 0, false
	}
	return n[0], true
}

// tile repeats along every axis.
func tile(c *call) {
	c.needInts(2, 1)
	dims, ranked := c.dims(0)
	times, ok := c.ints(1)
	switch {
	case !ranked:
		c.out(0, c.elem(0), Shape{})
		return
	case !ok:
		c.out(0, c.elem(0), Of(unknowns(len(dims))...))
		return
	case len(times) != len(dims):
		c.fail("%d repeats for a tensor of rank %d", len(times), len(dims))
	}
	out := make([]Dim, len(dims))
	for i, d := range dims {
		out[i] = Product(d, checked(checkDim(times[i], "a repeat")))
	}
	c.out(0, c.elem(0), Of(out...))
}

func tileEval(c *call) {
	v := c.value(0)
	shape, n := c.outSize()
	proceedIf(len(shape) == len(v.Shape))
	// An axis of k times d is read as two: k with stride 0, and d.
	var sizes []int64
	var step []int
	own := strides(v.Shape)
	for i, d := range v.Shape {
		sizes = append(sizes, shape[i]/max(d, 1), d)
		step = append(step, 0, own[i])
	}
	out := v.like(shape, n)
	odometer(sizes, n, 0, step, func(i, at int) { out.copyElem(i, v, at) })
	c.outConst(0, out)
}

// depthToSpace moves blocks of channels into the image: [N, C, H, W] becomes [N, C/b², H·b, W·b].
func depthToSpace(c *call) {
	dims, b := c.imageBlocks()
	if dims == nil {
		return
	}
	bb := Mul(b, b)
	if m, ok := Mod(dims[1], bb).Int(); ok && m != 0 {
		c.fail("%v channels do not divide into blocks of %v", dims[1], bb)
	}
	c.out(0, c.elem(0), Of(dims[0], FloorDiv(dims[1], bb), Mul(dims[2], b), Mul(dims[3], b)))
}

// spaceToDepth is the way back: [N, C, H, W] becomes [N, C·b², H/b, W/b].
func spaceToDepth(c *call) {
	dims, b := c.imageBlocks()
	if dims == nil {
		return
	}
	for _, d := range dims[2:] {
		if m, ok := Mod(d, b).Int(); ok && m != 0 {
			c.fail("a side of %v does not divide into blocks of %v", d, b)
		}
	}
	c.out(0, c.elem(0), Of(dims[0], Mul(dims[1], Mul(b, b)), FloorDiv(dims[2], b), FloorDiv(dims[3], b)))
}

// imageBlocks returns the image and the block size; without a known image it sets the output.
func (c *call) imageBlocks() ([]Dim, Dim) {
	c.need(1)
	b := c.needInt("blocksize")
	if b < 1 {
		c.fail("attribute blocksize is %d", b)
	}
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(0), Of(unknowns(4)...))
		return nil, Dim{}
	}
	if len(dims) != 4 {
		c.fail("%v is no image, [N, C, H, W] is wanted", c.shape(0))
	}
	return dims, N(b)
}

// reverseSequence keeps the shape; time_axis and batch_axis are 0 and 1 in either order.
func reverseSequence(c *call) {
	c.need(2)
	if dims, ok := c.dims(0); ok && len(dims) < 2 {
		c.fail("%v has no time and batch axes", c.shape(0))
	}
	unary(c)
}

func trilu(c *call) {
	c.need(1)
	if dims, ok := c.dims(0); ok && len(dims) < 2 {
		c.fail("%v has no matrices", c.shape(0))
	}
	unary(c)
}
