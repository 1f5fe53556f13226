package shape

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Type is what is known of a value: what kind of thing it is, its elements and
// its shape. The zero Type says that nothing is known.
type Type struct {
	Kind  onnxload.Kind
	Elem  onnxload.DType // tensors: the element; maps: the key; Undefined when not known
	Shape Shape          // tensors
	Of    *Type          // sequences and optionals: the element; maps: the value
	List  *List          // sequences: nil when their length is not known
}

// A List is what is known of a sequence besides the type that its elements share.
type List struct {
	Len   Dim
	Types []Type // of each element; nil when they are not followed one by one
}

// A Shape is a tensor's dimensions, or the statement that not even their number
// is known. The zero Shape has an unknown rank; a scalar is Ranked with no Dims.
type Shape struct {
	Ranked bool
	Dims   []Dim
}

// Of returns the ranked shape of these dimensions.
func Of(dims ...Dim) Shape { return Shape{Ranked: true, Dims: dims} }

// OfInts returns the ranked shape of these sizes.
func OfInts(sizes ...int64) Shape { return Of(toDims(sizes)...) }

func toDims(ints []int64) []Dim {
	out := make([]Dim, len(ints))
	for i, n := range ints {
		out[i] = N(n)
	}
	return out
}

func toFloats(values []float32) []float64 {
	out := make([]float64, len(values))
	for i, x := range values {
		out[i] = float64(x)
	}
	return out
}

// Tensor returns the type of a tensor.
func Tensor(elem onnxload.DType, s Shape) Type {
	return Type{Kind: onnxload.TensorType, Elem: elem, Shape: s}
}

// Sequence returns the type of a sequence of such elements.
func Sequence(of Type) Type { return Type{Kind: onnxload.SequenceType, Of: &of} }

// Ints returns the sizes, and whether all of them are known numbers.
func (s Shape) Ints() ([]int64, bool) {
	if !s.Ranked {
		return nil, false
	}
	out := make([]int64, len(s.Dims))
	for i, d := range s.Dims {
		n, ok := d.Int()
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// String writes the shape as [8, batch*2, ?], or ? when the rank is unknown.
func (s Shape) String() string {
	if !s.Ranked {
		return "?"
	}
	var b strings.Builder
	b.WriteByte('[')
	for i, d := range s.Dims {
		if i > 0 {
			b.WriteString(", ")
		}
		if d.Open() && !d.Overflowed() {
			b.WriteByte('?')
			continue
		}
		b.WriteString(d.String())
	}
	b.WriteByte(']')
	return b.String()
}

// String writes the type as float32[8, 3], sequence(int64[]), or unknown.
func (t Type) String() string {
	of := "unknown"
	if t.Of != nil {
		of = t.Of.String()
	}
	switch t.Kind {
	case onnxload.NoType:
		return "unknown"
	case onnxload.SequenceType:
		return "sequence(" + of + ")"
	case onnxload.OptionalType:
		return "optional(" + of + ")"
	case onnxload.MapType:
		return "map(" + t.Elem.String() + ", " + of + ")"
	case onnxload.OpaqueType:
		return "opaque"
	}
	if !t.Shape.Ranked {
		return t.Elem.String() + "[...]"
	}
	return t.Elem.String() + t.Shape.String()
}

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
