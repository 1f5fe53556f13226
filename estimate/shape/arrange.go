package shape

import (
	"fmt"
)

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
func transpose(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	dims, ok := c.dims(0)
	perm, err := c.perm(len(dims))
	if !ok || err != nil {
		if given, has := c.attrInts("perm"); !ok && has && len(given) <= maxRank {
			c.out(0, c.elem(0), Of(unknowns(len(given))...))
			return nil
		}
		c.out(0, c.elem(0), Shape{})
		return err
	}
	out := make([]Dim, len(dims))
	for i, a := range perm {
		out[i] = dims[a]
	}
	c.out(0, c.elem(0), Of(out...))
	return nil
}

// perm returns the permutation of a Transpose of that rank.
func (c *call) perm(rank int) ([]int, error) {
	out := make([]int, rank)
	perm, ok := c.attrInts("perm")
	if !ok {
		for i := range out {
			out[i] = rank - 1 - i
		}
		return out, nil
	}
	if len(perm) != rank {
		return nil, fmt.Errorf("attribute perm has %d axes for a tensor of rank %d", len(perm), rank)
	}
	if _, err := axisSet(perm, rank); err != nil {
		return nil, fmt.Errorf("attribute perm: %w", err)
	}
	for i, a := range perm {
		out[i], _ = axis(a, rank)
	}
	return out, nil
}

func transposeEval(c *call) error {
	v := c.constant(0)
	shape, n, ok := c.outSize()
	if v == nil || !ok {
		return nil
	}
	perm, err := c.perm(len(v.Shape))
	if err != nil {
		return err
	}
	own := strides(v.Shape)
	step := make([]int, len(perm))
	for i, a := range perm {
		step[i] = own[a]
	}
	c.outConst(0, v.pick(shape, n, 0, step))
	return nil
}

// expand stretches the input to a shape, and the shape to the input: a 1 in it keeps
// the input's dimension.
func expand(c *call) error {
	if err := c.needInts(2, 1); err != nil {
		return err
	}
	in := c.shape(0)
	target, ok := c.ints(1)
	if !ok {
		s := Shape{}
		if n, ok := c.length(1); ok && in.Ranked {
			var err error
			if s, err = broadcast(in, Of(unknowns(n)...)); err != nil {
				return err
			}
		}
		c.out(0, c.elem(0), s)
		return nil
	}
	s, err := shapeOf(target)
	if err != nil {
		return err
	}
	if s, err = broadcast(in, s); err != nil {
		return err
	}
	c.out(0, c.elem(0), s)
	return nil
}

func expandEval(c *call) error {
	v := c.constant(0)
	shape, n, ok := c.outSize()
	if v == nil || !ok {
		return nil
	}
	if v = v.expand(shape, n); v != nil {
		c.outConst(0, v)
	}
	return nil
}

// tileV1 repeats along one axis.
func tileV1(c *call) error {
	if !c.has(2) {
		return tile(c) // later writers stamped the old opset
	}
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(0), Shape{})
		return nil
	}
	times, okT := c.scalarInt(1)
	at, okA := c.scalarInt(2)
	if !okT || !okA {
		c.out(0, c.elem(0), Of(unknowns(len(dims))...))
		return nil
	}
	ax, err := axis(at, len(dims))
	if err != nil {
		return err
	}
	d, err := checkDim(Mul(dims[ax], N(times)), "the repeated dimension")
	if err != nil {
		return err
	}
	c.out(0, c.elem(0), c.shape(0).with(ax, d))
	return nil
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
func tile(c *call) error {
	if err := c.needInts(2, 1); err != nil {
		return err
	}
	dims, ranked := c.dims(0)
	times, ok := c.ints(1)
	switch {
	case !ranked:
		c.out(0, c.elem(0), Shape{})
		return nil
	case !ok:
		c.out(0, c.elem(0), Of(unknowns(len(dims))...))
		return nil
	case len(times) != len(dims):
		return fmt.Errorf("%d repeats for a tensor of rank %d", len(times), len(dims))
	}
	out := make([]Dim, len(dims))
	for i, d := range dims {
		var err error
		if _, err = checkDim(times[i], "a repeat"); err != nil {
			return err
		}
		out[i] = Product(d, times[i])
	}
	c.out(0, c.elem(0), Of(out...))
	return nil
}

func tileEval(c *call) error {
	v := c.constant(0)
	shape, n, ok := c.outSize()
	if v == nil || !ok || len(shape) != len(v.Shape) {
		return nil
	}
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
	return nil
}

// depthToSpace moves blocks of channels into the image: [N, C, H, W] becomes [N, C/b², H·b, W·b].
func depthToSpace(c *call) error {
	dims, b, err := c.imageBlocks()
	if err != nil || dims == nil {
		return err
	}
	bb := Mul(b, b)
	if m, ok := Mod(dims[1], bb).Int(); ok && m != 0 {
		return fmt.Errorf("%v channels do not divide into blocks of %v", dims[1], bb)
	}
	c.out(0, c.elem(0), Of(dims[0], FloorDiv(dims[1], bb), Mul(dims[2], b), Mul(dims[3], b)))
	return nil
}

// spaceToDepth is the way back: [N, C, H, W] becomes [N, C·b², H/b, W/b].
func spaceToDepth(c *call) error {
	dims, b, err := c.imageBlocks()
	if err != nil || dims == nil {
		return err
	}
	for _, d := range dims[2:] {
		if m, ok := Mod(d, b).Int(); ok && m != 0 {
			return fmt.Errorf("a side of %v does not divide into blocks of %v", d, b)
		}
	}
	c.out(0, c.elem(0), Of(dims[0], Mul(dims[1], Mul(b, b)), FloorDiv(dims[2], b), FloorDiv(dims[3], b)))
	return nil
}

// imageBlocks returns the image and the block size; without a known image it sets the output.
func (c *call) imageBlocks() ([]Dim, Dim, error) {
	if err := c.need(1); err != nil {
		return nil, Dim{}, err
	}
	b, err := c.needInt("blocksize")
	if err != nil {
		return nil, Dim{}, err
	}
	if b < 1 {
		return nil, Dim{}, fmt.Errorf("attribute blocksize is %d", b)
	}
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, c.elem(0), Of(unknowns(4)...))
		return nil, Dim{}, nil
	}
	if len(dims) != 4 {
		return nil, Dim{}, fmt.Errorf("%v is no image, [N, C, H, W] is wanted", c.shape(0))
	}
	return dims, N(b), nil
}

// reverseSequence keeps the shape; time_axis and batch_axis are 0 and 1 in either order.
func reverseSequence(c *call) error {
	if err := c.need(2); err != nil {
		return err
	}
	if dims, ok := c.dims(0); ok && len(dims) < 2 {
		return fmt.Errorf("%v has no time and batch axes", c.shape(0))
	}
	return unary(c)
}

func trilu(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	if dims, ok := c.dims(0); ok && len(dims) < 2 {
		return fmt.Errorf("%v has no matrices", c.shape(0))
	}
	return unary(c)
}
