package shape

import (
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

// A binaryFn computes one element. Either function may be nil: the operator then has no
// value for such inputs. A NaN is a float that is not known.
type binaryFn struct {
	ints   func(c *call, a, b Dim) Dim
	floats func(a, b float64) float64
}

// combine applies f to two broadcast tensors of the same kind, if it can.
func (f binaryFn) combine(c *call, elem onnxload.DType, a, b *Const, shape []int64, n int) *Const {
	proceedIf(sameKind(a, b) && a.isFloat() == elem.IsFloat())
	a, b = a.expand(shape, n), b.expand(shape, n)
	out := zeros(elem, shape, n)
	switch {
	case a.isFloat() && f.floats != nil:
		for i := range out.Floats {
			out.Floats[i] = f.floats(a.Floats[i], b.Floats[i])
		}
	case !a.isFloat() && f.ints != nil:
		for i := range out.Ints {
			out.Ints[i] = f.ints(c, a.Ints[i], b.Ints[i])
		}
	default:
		proceedIf(false)
	}
	settle(out)
	return out
}

// binaryEval returns the evaluation of an operator of any number of broadcast inputs, which f
// combines from left to right.
func binaryEval(f binaryFn) func(*call) {
	return func(c *call) {
		in := c.values(len(c.node.In))
		shape, n := c.outSize()
		acc := in[0]
		if len(in) == 1 {
			acc = acc.expand(shape, n)
		}
		for _, v := range in[1:] {
			acc = f.combine(c, in[0].Elem, acc, v, shape, n)
		}
		c.outConst(0, acc)
	}
}

// compareEval returns the evaluation of an operator that answers with a bool per element.
func compareEval(ints func(a, b Dim) (value, decided bool), floats func(a, b float64) bool) func(*call) {
	return func(c *call) {
		in := c.values(2)
		shape, n := c.outSize()
		proceedIf(sameKind(in...))
		a, b := in[0].expand(shape, n), in[1].expand(shape, n)
		out := zeros(onnxload.Bool, shape, n)
		for i := range out.Ints {
			if a.isFloat() {
				x, y := a.Floats[i], b.Floats[i]
				out.Ints[i] = c.truth(floats(x, y), !math.IsNaN(x) && !math.IsNaN(y))
				continue
			}
			out.Ints[i] = c.truth(ints(a.Ints[i], b.Ints[i]))
		}
		c.outConst(0, out)
	}
}

// unaryEval returns the evaluation of an operator that maps every element on its own.
// Either function may be nil.
func unaryEval(ints func(c *call, a Dim) Dim, floats func(float64) float64) func(*call) {
	return func(c *call) {
		v := c.value(0)
		out := v.like(v.Shape, v.Len())
		switch {
		case v.isFloat() && floats != nil:
			for i, x := range v.Floats {
				out.Floats[i] = floats(x)
			}
		case !v.isFloat() && ints != nil:
			for i, d := range v.Ints {
				out.Ints[i] = ints(c, d)
			}
		default:
			return
		}
		settle(out)
		c.outConst(0, out)
	}
}

// floatEval is unaryEval for operators on floats alone.
func floatEval(f func(float64) float64) func(*call) { return unaryEval(nil, f) }

// plain makes the integer half of a binaryFn of a function of Dims.
func plain(f func(a, b Dim) Dim) func(*call, Dim, Dim) Dim {
	return func(_ *call, a, b Dim) Dim { return f(a, b) }
}

// truncDiv divides as ONNX's Div does on integers: towards zero. Sizes are not negative, so that of an open one is the
// floor.
func truncDiv(c *call, a, b Dim) Dim {
	x, okA := a.Int()
	y, okB := b.Int()
	switch {
	case okB && y == 0:
		return unknownValue
	case okA && okB && y == -1:
		return Sub(N(0), a)
	case okA && okB:
		return N(x / y)
	case okB && y < 0:
		return Sub(N(0), FloorDiv(a, Sub(N(0), b)))
	}
	return FloorDiv(a, b)
}

// floorMod is Mod with fmod=0: the result has the divisor's sign.
func floorMod(c *call, a, b Dim) Dim {
	if y, ok := b.Int(); ok && y == 0 {
		return unknownValue
	}
	return Mod(a, b)
}

// truncMod is Mod with fmod=1 on integers: the result has the dividend's sign.
func truncMod(c *call, a, b Dim) Dim {
	x, okA := a.Int()
	y, okB := b.Int()
	switch {
	case okB && y == 0:
		return unknownValue
	case okA && okB && y == -1:
		return N(0)
	case okA && okB:
		return N(x % y)
	}
	return floorMod(c, a, b)
}

// intPow raises to a power that is a number.
func intPow(c *call, a, b Dim) Dim {
	exp, ok := b.Int()
	x, isNum := a.Int()
	switch {
	case !ok:
		return unknownValue
	case isNum && (x == 0 || x == 1) && exp > 0, exp == 1:
		return a
	case exp == 0:
		return N(1)
	case isNum && x == -1:
		if exp%2 == 0 {
			return N(1)
		}
		return a
	case exp < 0 && isNum && x != 0:
		return N(0)
	case exp < 0, exp > 63:
		return unknownValue
	}
	p := N(1)
	for range exp {
		p = Mul(p, a)
	}
	return p
}

func absDim(c *call, a Dim) Dim {
	n, ok := a.Int()
	switch lo, hi := a.bounds(); {
	case ok && n < 0, hi <= 0:
		return Sub(N(0), a)
	case lo >= 0:
		return a
	}
	return Max(a, Sub(N(0), a))
}

func signDim(c *call, a Dim) Dim {
	lo, hi := a.bounds()
	switch {
	case lo > 0:
		return N(1)
	case hi < 0:
		return N(-1)
	case lo == 0 && hi == 0:
		return N(0)
	}
	return unknownValue
}

func floatSign(x float64) float64 {
	switch {
	case x > 0:
		return 1
	case x < 0:
		return -1
	}
	return x // zeros and NaN
}
