package shape

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// sequenceFamily has the operators on lists of tensors.
var sequenceFamily = family{"", []op{
	{name: "SequenceConstruct", since: 11, infer: inferSequenceConstruct},
	{name: "SequenceEmpty", since: 11, infer: inferSequenceEmpty},
	{name: "SequenceInsert", since: 11, infer: inferSequenceInsert},
	{name: "SequenceAt", since: 11, infer: inferSequenceAt},
	{name: "SequenceLength", since: 11, infer: inferSequenceLength},
	{name: "SplitToSequence", since: 11, infer: inferSplitToSequence},
	{name: "ConcatFromSequence", since: 11, infer: inferConcatFromSequence},
}}

// maxListed is how long a list may be for its elements to be followed one by one.
const maxListed = 256

// list returns the type of a sequence of these elements.
func (f *inferer) list(types []Type) Type {
	t := Type{Kind: onnxload.SequenceType, Of: &Type{Kind: onnxload.TensorType}, List: &List{Len: N(int64(len(types)))}}
	if len(types) == 0 {
		return t
	}
	of := types[0]
	for _, e := range types[1:] {
		of = f.union(of, e)
	}
	t.Of = &of
	if len(types) <= maxListed && f.afford(len(types)) {
		t.List.Types = types
	}
	return t
}

// listed returns the type of a sequence whose length is known but whose elements are not followed.
func listed(of Type, n Dim) Type {
	return Type{Kind: onnxload.SequenceType, Of: &of, List: &List{Len: n}}
}

// sequence returns input 0, which must be a sequence when its kind is known, and
// the type of its elements.
func (c *call) sequence() (t, of Type) {
	t = c.in(0)
	if t.Kind != onnxload.SequenceType && t.Kind != onnxload.NoType {
		c.fail("input 0 is %v, wanted a sequence", t)
	}
	if t.Of != nil {
		of = *t.Of
	}
	return t, of
}

// followed returns the elements of a sequence when they are followed one by one.
func (t Type) followed() ([]Type, bool) {
	if t.List == nil {
		return nil, false
	}
	return t.List.Types, t.List.Types != nil || t.isEmpty()
}

// placeIn returns the position that input i names in a sequence, at most so many before its end, where a missing one is.
// It reports false when the elements or the position are not known.
func (c *call) placeIn(t Type, i, before int) (int, bool) {
	types, ok := t.followed()
	if !ok {
		return 0, false
	}
	last := int64(len(types) - before)
	if !c.has(i) {
		return int(last), last >= 0
	}
	v, ok := c.int64s(i)
	if !ok || len(v) != 1 {
		return 0, false
	}
	at := v[0]
	if at < 0 {
		at += int64(len(types))
	}
	if at < 0 || at > last {
		c.fail("position %d is outside a sequence of %d", v[0], len(types))
	}
	return int(at), true
}

func inferSequenceConstruct(c *call) {
	c.set(0, c.inf.list(slices.Clone(c.ins)))
}

func inferSequenceEmpty(c *call) {
	elem := c.attrInt("dtype", int64(onnxload.Float32))
	if elem < 0 || elem > 255 || !onnxload.DType(elem).Valid() {
		c.fail("dtype is %d, which is no element type", elem)
	}
	c.set(0, listed(Tensor(onnxload.DType(elem), Shape{}), N(0)))
}

func inferSequenceInsert(c *call) {
	t, of := c.sequence()
	added := c.in(1)
	at, known := c.placeIn(t, 2, 0)
	if known {
		c.set(0, c.inf.list(slices.Insert(slices.Clone(t.List.Types), at, added)))
		return
	}
	if t.isEmpty() {
		of = added
	} else {
		of = c.inf.union(of, added)
	}
	if t.List == nil {
		c.set(0, Sequence(of))
		return
	}
	c.set(0, listed(of, Add(t.List.Len, N(1))))
}

func inferSequenceAt(c *call) {
	t, of := c.sequence()
	at, known := c.placeIn(t, 1, 1)
	if known {
		of = t.List.Types[at]
	}
	c.set(0, of)
}

func inferSequenceLength(c *call) {
	t, _ := c.sequence()
	c.out(0, onnxload.Int64, Of())
	if t.List != nil {
		c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{}, Ints: []Dim{t.List.Len}})
	}
}

// inferSplitToSequence splits into pieces of one (no split given), into pieces of a size
// (a scalar), the last one smaller, or into pieces of given sizes (a list).
func inferSplitToSequence(c *call) {
	dims, ok := c.dims(0)
	elem := c.elem(0)
	if !ok {
		c.set(0, Sequence(Tensor(elem, Shape{})))
		return
	}
	at := checked(axis(c.attrInt("axis", 0), len(dims)))
	piece := func(n Dim) Type {
		d := slices.Clone(dims)
		d[at] = n
		return Tensor(elem, Of(d...))
	}
	if !c.has(1) {
		of := piece(N(1))
		if c.attrInt("keepdims", 1) == 0 {
			of.Shape = Of(slices.Delete(slices.Clone(dims), at, at+1)...)
		}
		c.set(0, listed(of, dims[at]))
		return
	}
	sizes, known := c.ints(1)
	if split, ranked := c.dims(1); ranked && len(split) == 0 && known {
		c.splitEvenly(dims[at], sizes[0], piece)
		return
	} else if ranked && len(split) == 1 && !known {
		c.set(0, listed(piece(bounded(dims[at])), split[0]))
		return
	}
	if !known {
		c.set(0, Sequence(piece(bounded(dims[at]))))
		return
	}
	sum, types := N(0), make([]Type, len(sizes))
	for i, n := range sizes {
		sum = Add(sum, n)
		types[i] = piece(n)
		if err := checkType(types[i]); err != nil {
			c.fail("piece %d: %w", i, err)
		}
	}
	if n, ok := Sub(sum, dims[at]).Int(); ok && n != 0 {
		c.fail("pieces of %v together, the dimension is %v", sum, dims[at])
	}
	c.set(0, c.inf.list(types))
}

// splitEvenly gives output 0 the type of a dimension split into pieces of size.
func (c *call) splitEvenly(d, size Dim, piece func(Dim) Type) {
	if n, ok := size.Int(); ok && n <= 0 {
		c.fail("split is %d, wanted a positive number", n)
	}
	count, rest := CeilDiv(d, size), Mod(d, size)
	n, okN := count.Int()
	last, okLast := rest.Int()
	switch {
	case okLast && last == 0:
		c.set(0, listed(piece(size), count))
	case okN && okLast && n <= maxListed:
		types := make([]Type, n)
		for i := range types {
			types[i] = piece(size)
		}
		types[n-1] = piece(rest)
		c.set(0, c.inf.list(types))
	default:
		c.set(0, listed(piece(bounded(size)), count))
	}
}

func inferConcatFromSequence(c *call) {
	t, of := c.sequence()
	a := c.node.Attr("axis")
	if a == nil {
		c.fail("attribute %q is missing", "axis")
	}
	types, followed := t.followed()
	if !of.Shape.Ranked {
		c.out(0, of.Elem, Shape{})
		return
	}
	rank := len(of.Shape.Dims)
	if c.attrInt("new_axis", 0) != 0 {
		at := checked(axis(a.Int, rank+1))
		n := unknownSize
		if t.List != nil {
			n = t.List.Len
		}
		c.set(0, stacked(of, at, n))
		return
	}
	at := checked(axis(a.Int, rank))
	sum := N(0)
	switch {
	case followed:
		for _, e := range types {
			sum = Add(sum, e.Shape.Dims[at])
		}
	case t.List != nil && !of.Shape.Dims[at].Open():
		sum = Mul(t.List.Len, of.Shape.Dims[at])
	default:
		sum = unknownSize
	}
	dims := slices.Clone(of.Shape.Dims)
	dims[at] = sum
	c.out(0, of.Elem, Of(dims...))
}
