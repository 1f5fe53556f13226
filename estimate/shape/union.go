package shape

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// union returns what is true of a value that may have either type: dimensions
// that differ become unknown, ranks that differ leave no shape. A dimension that is
// unknown in a stays as it is, so that repeated unions come to rest.
func (f *inferer) union(a, b Type) Type {
	if a.Kind != b.Kind {
		return Type{}
	}
	if a.Elem != b.Elem {
		a.Elem = onnxload.Undefined
	}
	if a.Of != nil && b.Of != nil {
		of := *a.Of
		switch {
		case a.isEmpty():
			of = *b.Of
		case !b.isEmpty():
			of = f.union(of, *b.Of)
		}
		a.Of = &of
	} else if a.Of == nil {
		a.Of = b.Of
	}
	if a.List != nil && !sameList(a.List, b.List) {
		a.List = nil
	}
	if !a.Shape.Ranked || !b.Shape.Ranked || len(a.Shape.Dims) != len(b.Shape.Dims) {
		a.Shape = Shape{}
		return a
	}
	a.Shape.Dims = slices.Clone(a.Shape.Dims)
	for i, d := range a.Shape.Dims {
		if !same(d, b.Shape.Dims[i]) && !d.Open() {
			a.Shape.Dims[i] = unknownSize
		}
	}
	return a
}

// isEmpty reports whether t is a sequence known to have no elements: what its
// element type says then binds nobody.
func (t Type) isEmpty() bool {
	if t.Kind != onnxload.SequenceType || t.List == nil {
		return false
	}
	n, ok := t.List.Len.Int()
	return ok && n == 0
}

// sameType reports whether a and b say the same.
func sameType(a, b Type) bool {
	if a.Kind != b.Kind || a.Elem != b.Elem || a.Shape.Ranked != b.Shape.Ranked {
		return false
	}
	if (a.Of == nil) != (b.Of == nil) || a.Of != nil && !sameType(*a.Of, *b.Of) || !sameList(a.List, b.List) {
		return false
	}
	return slices.EqualFunc(a.Shape.Dims, b.Shape.Dims, same)
}

func sameList(a, b *List) bool {
	if a == nil || b == nil {
		return a == b
	}
	return same(a.Len, b.Len) && slices.EqualFunc(a.Types, b.Types, sameType)
}

// either returns the type of a value that one of two branches yields, a by the
// larger one. Numbers that differ become a dimension bounded by the larger; where
// the branches differ in more than sizes, the larger branch is right.
func (f *inferer) either(a, b Type) Type {
	if sameType(a, b) || a.Kind != b.Kind || a.Elem != b.Elem || b.isEmpty() {
		return a
	}
	if a.isEmpty() {
		return b
	}
	if a.Of != nil && b.Of != nil {
		of := f.either(*a.Of, *b.Of)
		a.Of = &of
	}
	if a.List != nil && !sameList(a.List, b.List) {
		a.List = nil
	}
	if !a.Shape.Ranked && b.Shape.Ranked {
		return b
	}
	if len(a.Shape.Dims) != len(b.Shape.Dims) {
		return a
	}
	a.Shape.Dims = slices.Clone(a.Shape.Dims)
	for i, d := range a.Shape.Dims {
		if e := b.Shape.Dims[i]; !same(d, e) {
			a.Shape.Dims[i] = bounded(Max(d, e))
		}
	}
	return a
}
