package shape

import (
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
