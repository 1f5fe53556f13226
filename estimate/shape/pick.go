package shape

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// pickFamily has the operators whose result's size depends on data, and TopK. Without a known
// value the size is an unknown with a limit.
var pickFamily = family{"", []op{
	{"NonZero", 9, nonZero, nil},
	{"Unique", 11, unique, nil},
	{"TopK", 1, topKAttr, topKEval},
	{"TopK", 10, topK, topKEval},
}}

// nonZero gives the coordinates of the elements that are not zero: [rank, n].
func nonZero(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	dims, ok := c.dims(0)
	if !ok {
		c.out(0, onnxload.Int64, Of(c.unknown(), c.unknown()))
		return nil
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
		c.out(0, onnxload.Int64, Of(N(int64(rank)), c.bounded(Product(dims...))))
		return nil
	}
	out := zeros(onnxload.Int64, []int64{int64(rank), int64(len(at))}, rank*len(at))
	own := strides(v.Shape)
	for j, p := range at {
		for i := range rank {
			out.Ints[i*len(at)+j] = N(int64(p / own[i] % int(v.Shape[i])))
		}
	}
	c.outConst(0, out)
	return nil
}

// slices tells along which axis an operator picks from input 0, and among how many slices; without the
// attribute axis it picks elements of the flattened input.
func (c *call) slices() (flat bool, ax int, count Dim, err error) {
	flat, count = c.node.Attr("axis") == nil, c.unknown()
	dims, ok := c.dims(0)
	switch {
	case !ok:
	case flat:
		count = Product(dims...)
	default:
		if ax, err = c.axisAttr("axis", 0, len(dims)); err == nil {
			count = dims[ax]
		}
	}
	return flat, ax, count, err
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
func unique(c *call) error {
	if err := c.need(1); err != nil {
		return err
	}
	flat, ax, limit, err := c.slices()
	if err != nil {
		return err
	}
	if v := c.constant(0); v != nil && c.inf.afford(v.Len()) {
		if flat {
			v = &Const{Elem: v.Elem, Shape: []int64{int64(v.Len())}, Ints: v.Ints, Floats: v.Floats}
		}
		if c.uniqueValues(v, ax) {
			return nil
		}
	}
	n := limit
	if one, ok := limit.Int(); !ok || one > 1 {
		n = c.bounded(limit)
	}
	c.outPicked(flat, ax, n)
	c.out(1, onnxload.Int64, Of(n))
	c.out(2, onnxload.Int64, Of(limit))
	c.out(3, onnxload.Int64, Of(n))
	return nil
}

// uniqueValues computes unique of the slices of v along ax, and reports whether it could. Slices
// are compared element by element.
func (c *call) uniqueValues(v *Const, ax int) bool {
	keys, ok := v.keys()
	if !ok || v.Len() == 0 {
		return false
	}
	outer, mid, inner := split3(v.Shape, ax)
	compare := func(a, b int) int {
		for o := range outer {
			for i := range inner {
				if d := cmp.Compare(keys[(o*mid+a)*inner+i], keys[(o*mid+b)*inner+i]); d != 0 {
					return d
				}
			}
		}
		return 0
	}
	order := make([]int, mid)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, compare)
	type group struct{ first, count, number int }
	var groups []*group
	member := make([]*group, mid)
	for i, k := range order {
		if i == 0 || compare(order[i-1], k) != 0 {
			groups = append(groups, &group{first: k}) // the sort is stable
		}
		g := groups[len(groups)-1]
		g.count++
		member[k] = g
	}
	if c.attrInt("sorted", 1) == 0 {
		slices.SortFunc(groups, func(a, b *group) int { return a.first - b.first })
	}
	n := len(groups)
	shape := slices.Clone(v.Shape)
	shape[ax] = int64(n)
	values := v.like(shape, outer*n*inner)
	first, count := zeros(onnxload.Int64, []int64{int64(n)}, n), zeros(onnxload.Int64, []int64{int64(n)}, n)
	inverse := zeros(onnxload.Int64, []int64{int64(mid)}, mid)
	for k, g := range groups {
		g.number = k
		first.Ints[k], count.Ints[k] = N(int64(g.first)), N(int64(g.count))
		for o := range outer {
			for i := range inner {
				values.copyElem((o*n+k)*inner+i, v, (o*mid+g.first)*inner+i)
			}
		}
	}
	for i, g := range member {
		inverse.Ints[i] = N(int64(g.number))
	}
	c.outConst(0, values)
	c.outConst(1, first)
	c.outConst(2, inverse)
	c.outConst(3, count)
	return true
}

// keys returns the elements as floats to compare by, and whether all are known and
// keep their order as such.
func (v *Const) keys() ([]float64, bool) {
	if v.isFloat() {
		return v.Floats, !slices.ContainsFunc(v.Floats, math.IsNaN)
	}
	ints, ok := v.numbers()
	out := make([]float64, len(ints))
	for i, n := range ints {
		if n >= 1<<53 || n <= -1<<53 {
			return nil, false
		}
		out[i] = float64(n)
	}
	return out, ok
}

// topKAttr has k as an attribute.
func topKAttr(c *call) error {
	if c.node.Attr("k") == nil && c.has(1) {
		return topK(c) // later writers stamped the old opset
	}
	k, err := c.needInt("k")
	if err != nil {
		return err
	}
	return c.topK(N(k))
}

func topK(c *call) error {
	if err := c.needInts(2, 1); err != nil {
		return err
	}
	if k, ok := c.ints(1); ok {
		if len(k) != 1 {
			return fmt.Errorf("k has %d elements, one is wanted", len(k))
		}
		return c.topK(k[0])
	}
	dims, ok := c.dims(0)
	if !ok || len(dims) == 0 {
		return c.topK(c.unknown())
	}
	ax, err := c.axisAttr("axis", -1, len(dims))
	if err != nil {
		return err
	}
	return c.topK(c.bounded(dims[ax]))
}

// topK leaves k elements along axis: their values, and their places.
func (c *call) topK(k Dim) error {
	if err := c.need(1); err != nil {
		return err
	}
	s := c.shape(0)
	if s.Ranked {
		if len(s.Dims) == 0 {
			return errScalar
		}
		ax, err := c.axisAttr("axis", -1, len(s.Dims))
		if err != nil {
			return err
		}
		if _, err := checkDim(k, "k"); err != nil {
			return err
		}
		if more, decided := less(s.Dims[ax], k); more && decided {
			return fmt.Errorf("k is %v for an axis of %v elements", k, s.Dims[ax])
		}
		s = s.with(ax, k)
	}
	c.out(0, c.elem(0), s)
	c.out(1, onnxload.Int64, s)
	return nil
}

// topKEval sorts every line along axis: the largest first unless largest is 0, and of
// equal ones the first.
func topKEval(c *call) error {
	v := c.constant(0)
	if v == nil || len(v.Shape) == 0 {
		return nil
	}
	shape, ok := c.topKShape()
	n, fits := sizeOf(shape)
	if !ok || !fits {
		return nil
	}
	ax, err := c.axisAttr("axis", -1, len(v.Shape))
	if err != nil {
		return err
	}
	keys, ok := v.keys()
	if !ok {
		return nil
	}
	sign := -1
	if c.attrInt("largest", 1) == 0 {
		sign = 1
	}
	values, places := v.like(shape, n), zeros(onnxload.Int64, shape, n)
	outer, mid, inner := split3(v.Shape, ax)
	k := int(shape[ax])
	order := make([]int, mid)
	for o := range outer {
		for i := range inner {
			for j := range order {
				order[j] = j
			}
			slices.SortStableFunc(order, func(a, b int) int {
				x, y := keys[(o*mid+a)*inner+i], keys[(o*mid+b)*inner+i]
				return sign * cmp.Compare(x, y)
			})
			for j := range k {
				at := (o*k+j)*inner + i
				values.copyElem(at, v, (o*mid+order[j])*inner+i)
				places.Ints[at] = N(int64(order[j]))
			}
		}
	}
	c.outConst(0, values)
	c.outConst(1, places)
	return nil
}

// topKShape returns the sizes that infer gave to the outputs.
func (c *call) topKShape() ([]int64, bool) {
	for i := range min(2, len(c.outs)) {
		if c.hasOut(i) {
			return c.outs[i].Shape.Ints()
		}
	}
	return nil, false
}
