package shape

import (
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// typeOf returns what is known of a value so far.
func (f *inferer) typeOf(id onnxload.ValueID) Type {
	if t := f.types[id]; t != nil {
		return *t
	}
	return Type{}
}

// setType notes the type of a value.
func (f *inferer) setType(id onnxload.ValueID, t Type) {
	if t.Of != nil || t.List != nil {
		f.types[id] = f.newType(t)
		return
	}
	if t.Kind == onnxload.NoType && t.Elem == onnxload.Undefined && !t.Shape.Ranked {
		f.types[id] = nil
		return
	}
	h := hashOf(t.Elem, len(t.Shape.Dims))
	for _, d := range t.Shape.Dims {
		h = h.with(d.n)
	}
	at := h.slot(f)
	// Symbols are compared as pointers: equal ones that are not the same only miss being shared.
	if s := *at; s == nil || s.Kind != t.Kind || s.Elem != t.Elem || s.Shape.Ranked != t.Shape.Ranked ||
		!slices.Equal(s.Shape.Dims, t.Shape.Dims) {
		t.Shape.Dims = slices.Clip(t.Shape.Dims)
		*at = f.newType(t)
	}
	f.types[id] = *at
}

// setTensor is setType for a tensor of these sizes.
func (f *inferer) setTensor(id onnxload.ValueID, elem onnxload.DType, sizes []int64) {
	h := hashOf(elem, len(sizes))
	for _, n := range sizes {
		h = h.with(n)
	}
	at := h.slot(f)
	same := func(d Dim, n int64) bool { return d == N(n) }
	if s := *at; s == nil || s.Kind != onnxload.TensorType || s.Elem != elem || !s.Shape.Ranked ||
		!slices.EqualFunc(s.Shape.Dims, sizes, same) {
		*at = f.newType(Tensor(elem, OfInts(sizes...)))
	}
	f.types[id] = *at
}

// A typeHash says where a type is among the recent ones.
type typeHash uint64

func hashOf(elem onnxload.DType, rank int) typeHash { return typeHash(elem)<<8 + typeHash(rank) }

func (h typeHash) with(n int64) typeHash { return (h ^ typeHash(n)) * 0x9e3779b97f4a7c15 }

func (h typeHash) slot(f *inferer) **Type { return &f.recent[h.with(0)>>56] }

// newType returns a pointer to t, whose neighbours in memory are other types.
func (f *inferer) newType(t Type) *Type {
	if len(f.room) == cap(f.room) {
		f.room = make([]Type, 0, min(max(2*cap(f.room), 16), 512))
	}
	f.room = append(f.room, t)
	return &f.room[len(f.room)-1]
}
