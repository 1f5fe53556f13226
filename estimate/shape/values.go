package shape

import (
	"errors"
	"math"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// errNoValue ends an evaluation that has nothing to compute with: the result then has no value.
var errNoValue = errors.New("no value")

// proceedIf ends the evaluation unless there is what it computes with.
func proceedIf(ok bool) {
	if !ok {
		panic(refusal{errNoValue})
	}
}

// value returns the value of input i, which must be known.
func (c *call) value(i int) *Const {
	v := c.constant(i)
	proceedIf(v != nil)
	return v
}

// values returns those of inputs 0..n-1, which must all be known; there is one at least.
func (c *call) values(n int) []*Const {
	proceedIf(n > 0)
	out := make([]*Const, n)
	for i := range out {
		out[i] = c.value(i)
	}
	return out
}

// sizeOf returns the number of elements of a tensor of these sizes, and whether a value of
// that many may be made at all. It is the only gate to an allocation by size.
func sizeOf(shape []int64) (int, bool) {
	n := int64(1)
	for _, d := range shape {
		if d == 0 {
			return 0, true
		}
	}
	for _, d := range shape {
		if d < 0 || d > maxConst || n*d > maxConst {
			return 0, false
		}
		n *= d
	}
	return int(n), true
}

// outSize returns the sizes of output 0 and the number of its elements, of which a value may be made.
func (c *call) outSize() ([]int64, int) {
	proceedIf(c.hasOut(0))
	shape, ok := c.outs[0].Shape.Ints()
	proceedIf(ok)
	n, ok := sizeOf(shape)
	proceedIf(ok)
	return shape, n
}

// isFloat reports whether v has Floats.
func (v *Const) isFloat() bool { return v.Floats != nil }

// like returns a tensor of v's type and that shape, with zeros as its n elements.
func (v *Const) like(shape []int64, n int) *Const { return zeros(v.Elem, shape, n) }

// zeros returns a tensor of n zeros, n being the number of elements of shape.
func zeros(elem onnxload.DType, shape []int64, n int) *Const {
	v := &Const{Elem: elem, Shape: shape}
	if elem.IsFloat() {
		v.Floats = make([]float64, n)
	} else {
		v.Ints = make([]Dim, n)
	}
	return v
}

// copyElem sets v's element i to element j of w, which has v's kind of elements.
func (v *Const) copyElem(i int, w *Const, j int) {
	if v.isFloat() {
		v.Floats[i] = w.Floats[j]
	} else {
		v.Ints[i] = w.Ints[j]
	}
}

// sameKind reports whether the tensors have the same kind of elements.
func sameKind(vs ...*Const) bool {
	for _, v := range vs {
		if v != nil && v.isFloat() != vs[0].isFloat() {
			return false
		}
	}
	return true
}

// strides returns the row-major strides of a shape, in elements.
func strides(shape []int64) []int {
	s := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= int(max(shape[i], 1))
	}
	return s
}

// stretched returns the strides with which v is read when it is broadcast to out:
// 0 along the axes that it lacks or has once.
func (v *Const) stretched(out []int64) []int {
	own := strides(v.Shape)
	s := make([]int, len(out))
	for i := range v.Shape {
		if j := i + len(out) - len(v.Shape); j >= 0 && v.Shape[i] != 1 {
			s[j] = own[i]
		}
	}
	return s
}

// odometer visits the n elements of shape in row-major order. f gets the element's number
// and the offset that the given strides lead to from start.
func odometer(shape []int64, n, start int, step []int, f func(i, at int)) {
	count := make([]int64, len(shape))
	at := start
	for i := range n {
		f(i, at)
		for j := len(shape) - 1; j >= 0; j-- {
			count[j]++
			at += step[j]
			if count[j] < shape[j] {
				break
			}
			at -= step[j] * int(shape[j])
			count[j] = 0
		}
	}
}

// pick returns the tensor of n elements that strides lead to in v from start.
func (v *Const) pick(shape []int64, n, start int, step []int) *Const {
	out := v.like(shape, n)
	odometer(shape, n, start, step, func(i, at int) { out.copyElem(i, v, at) })
	return out
}

// expand returns v broadcast to shape, of n elements. An input that the operator does not have may not stretch to it.
func (v *Const) expand(shape []int64, n int) *Const {
	// as many elements are not enough: of a tensor without any, other dimensions may stretch
	if slices.Equal(v.Shape, shape) {
		return v
	}
	for i, d := range v.Shape {
		j := i + len(shape) - len(v.Shape)
		proceedIf(d == 1 || j >= 0 && d == shape[j])
	}
	return v.pick(shape, n, 0, v.stretched(shape))
}

// split3 returns the sizes before, at and after an axis of a tensor that passed
// sizeOf; for one without elements there is nothing before it.
func split3(shape []int64, ax int) (outer, mid, inner int) {
	if slices.Contains(shape, 0) {
		return 0, 0, 0
	}
	outer, mid, inner = 1, int(shape[ax]), 1
	for _, d := range shape[:ax] {
		outer *= int(d)
	}
	for _, d := range shape[ax+1:] {
		inner *= int(d)
	}
	return outer, mid, inner
}

// numbers returns the integer elements, which must be known numbers.
func (v *Const) numbers() []int64 {
	proceedIf(v.Ints != nil)
	out := make([]int64, len(v.Ints))
	for i, d := range v.Ints {
		var ok bool
		out[i], ok = d.Int()
		proceedIf(ok)
	}
	return out
}

// settle brings the elements of v into its type: integers wrap and floats are
// rounded. An integer that left 64 bits stays what it is, so that a shape made of it
// is refused for that reason.
func settle(v *Const) {
	for i, d := range v.Ints {
		if n, ok := d.Int(); ok {
			v.Ints[i] = N(wrap(n, v.Elem))
		}
	}
	for i, x := range v.Floats {
		v.Floats[i] = roundTo(x, v.Elem)
	}
}

// wrap brings n into the range of an integer type, as two's complement does.
func wrap(n int64, e onnxload.DType) int64 {
	switch e {
	case onnxload.Bool:
		if n != 0 {
			return 1
		}
		return 0
	case onnxload.Int32, onnxload.Int16, onnxload.Int8, onnxload.Int4, onnxload.Int2:
		s := 64 - e.Bits()
		return n << s >> s
	case onnxload.Uint32, onnxload.Uint16, onnxload.Uint8, onnxload.Uint4, onnxload.Uint2:
		return n & (1<<e.Bits() - 1)
	}
	return n
}

// roundTo rounds x to a floating-point type. NaN stands for a value that is not
// known and stays.
func roundTo(x float64, e onnxload.DType) float64 {
	switch e {
	case onnxload.Float32:
		return float64(float32(x))
	case onnxload.Float16:
		return roundBits(x, 11, -24, 65504)
	case onnxload.BFloat16:
		return roundBits(x, 8, -133, 0x1.fep127)
	}
	return x
}

// roundBits rounds x to that many bits of significand, to even, but not finer than
// 2^tiny; what is then above limit is infinite.
func roundBits(x float64, bits, tiny int, limit float64) float64 {
	if x == 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return x
	}
	_, exp := math.Frexp(x)
	unit := math.Ldexp(1, max(exp-bits, tiny))
	y := math.RoundToEven(x/unit) * unit
	if math.Abs(y) > limit {
		return math.Inf(int(math.Copysign(1, y)))
	}
	return y
}

// truth returns a bool element as 0 or 1; where it is not decided, an unknown.
func (c *call) truth(value, decided bool) Dim {
	switch {
	case !decided:
		return unknownValue
	case value:
		return N(1)
	}
	return N(0)
}
