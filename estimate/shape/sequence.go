package shape

import (
	"fmt"
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
func (c *call) sequence() (t, of Type, err error) {
	t = c.in(0)
	if t.Kind != onnxload.SequenceType && t.Kind != onnxload.NoType {
		return t, of, fmt.Errorf("input 0 is %v, wanted a sequence", t)
	}
	if t.Of != nil {
		of = *t.Of
	}
	return t, of, nil
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
func (c *call) placeIn(t Type, i, before int) (int, bool, error) {
	types, ok := t.followed()
	if !ok {
		return 0, false, nil
	}
	last := int64(len(types) - before)
	if !c.has(i) {
		return int(last), last >= 0, nil
	}
	v, ok := c.int64s(i)
	if !ok || len(v) != 1 {
		return 0, false, nil
	}
	at := v[0]
	if at < 0 {
		at += int64(len(types))
	}
	if at < 0 || at > last {
		return 0, false, fmt.Errorf("position %d is outside a sequence of %d", v[0], len(types))
	}
	return int(at), true, nil
}

func inferSequenceConstruct(c *call) error {
	c.set(0, c.inf.list(slices.Clone(c.ins)))
	return nil
}

func inferSequenceEmpty(c *call) error {
	elem := c.attrInt("dtype", int64(onnxload.Float32))
	if elem < 0 || elem > 255 || !onnxload.DType(elem).Valid() {
		return fmt.Errorf("dtype is %d, which is no element type", elem)
	}
	c.set(0, listed(Tensor(onnxload.DType(elem), Shape{}), N(0)))
	return nil
}

func inferSequenceInsert(c *call) error {
	t, of, err := c.sequence()
	if err != nil {
		return err
	}
	added := c.in(1)
	at, known, err := c.placeIn(t, 2, 0)
	if err != nil {
		return err
	}
	if known {
		c.set(0, c.inf.list(slices.Insert(slices.Clone(t.List.Types), at, added)))
		return nil
	}
	if t.isEmpty() {
		of = added
	} else {
		of = c.inf.union(of, added)
	}
	if t.List == nil {
		c.set(0, Sequence(of))
		return nil
	}
	c.set(0, listed(of, Add(t.List.Len, N(1))))
	return nil
}

func inferSequenceAt(c *call) error {
	t, of, err := c.sequence()
	if err != nil {
		return err
	}
	at, known, err := c.placeIn(t, 1, 1)
	if err != nil {
		return err
	}
	if known {
		of = t.List.Types[at]
	}
	c.set(0, of)
	return nil
}

func inferSequenceLength(c *call) error {
	t, _, err := c.sequence()
	if err != nil {
		return err
	}
	c.out(0, onnxload.Int64, Of())
	if t.List != nil {
		c.outConst(0, &Const{Elem: onnxload.Int64, Shape: []int64{}, Ints: []Dim{t.List.Len}})
	}
	return nil
}

// inferSplitToSequence splits into pieces of one (no split given), into pieces of a size
// (a scalar), the last one smaller, or into pieces of given sizes (a list).
func inferSplitToSequence(c *call) error {
	dims, ok := c.dims(0)
	elem := c.elem(0)
	if !ok {
		c.set(0, Sequence(Tensor(elem, Shape{})))
		return nil
	}
	at, err := axis(c.attrInt("axis", 0), len(dims))
	if err != nil {
		return err
	}
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
		return nil
	}
	sizes, known := c.ints(1)
	if split, ranked := c.dims(1); ranked && len(split) == 0 && known {
		return c.splitEvenly(dims[at], sizes[0], piece)
	} else if ranked && len(split) == 1 && !known {
		c.set(0, listed(piece(bounded(dims[at])), split[0]))
		return nil
	}
	if !known {
		c.set(0, Sequence(piece(bounded(dims[at]))))
		return nil
	}
	sum, types := N(0), make([]Type, len(sizes))
	for i, n := range sizes {
		sum = Add(sum, n)
		types[i] = piece(n)
		if err := checkType(types[i]); err != nil {
			return fmt.Errorf("piece %d: %w", i, err)
		}
	}
	if n, ok := Sub(sum, dims[at]).Int(); ok && n != 0 {
		return fmt.Errorf("pieces of %v together, the dimension is %v", sum, dims[at])
	}
	c.set(0, c.inf.list(types))
	return nil
}

// splitEvenly gives output 0 the type of a dimension split into pieces of size.
func (c *call) splitEvenly(d, size Dim, piece func(Dim) Type) error {
	if n, ok := size.Int(); ok && n <= 0 {
		return fmt.Errorf("split is %d, wanted a positive number", n)
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
	return nil
}

func inferConcatFromSequence(c *call) error {
	t, of, err := c.sequence()
	if err != nil {
		return err
	}
	a := c.node.Attr("axis")
	if a == nil {
		return fmt.Errorf("attribute %q is missing", "axis")
	}
	types, followed := t.followed()
	if !of.Shape.Ranked {
		c.out(0, of.Elem, Shape{})
		return nil
	}
	rank := len(of.Shape.Dims)
	if c.attrInt("new_axis", 0) != 0 {
		at, err := axis(a.Int, rank+1)
		if err != nil {
			return err
		}
		n := unknownSize
		if t.List != nil {
			n = t.List.Len
		}
		c.set(0, stacked(of, at, n))
		return nil
	}
	at, err := axis(a.Int, rank)
	if err != nil {
		return err
	}
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
	return nil
}
