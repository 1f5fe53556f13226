package shape

import "github.com/memestimate/memestimate/onnxload"

// A Const is the value of a small tensor. Integer and bool tensors have Ints, whose
// elements may be open; floating-point tensors have Floats. A tensor
// without elements has the one that its type asks for, empty but not nil.
type Const struct {
	Elem   onnxload.DType
	Shape  []int64
	Ints   []Dim
	Floats []float64

	stored  *onnxload.Tensor // the value lies here and was not read yet; nothing else is set
	pending *onnxload.Node   // the value comes out of here and was not computed yet; nothing else is set
}

// Len returns the number of elements.
func (v *Const) Len() int {
	if v.Ints != nil {
		return len(v.Ints)
	}
	return len(v.Floats)
}
