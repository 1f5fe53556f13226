package shape

import (
	"math"
	"slices"

	"github.com/memestimate/memestimate/onnxload"
)

// logicFamily has comparisons, logic and bit operations.
var logicFamily = family{"", []op{
	{"Equal", 1, compareV1, equalEval},
	{"Equal", 7, compare, equalEval},
	{"Less", 1, compareV1, lessEval},
	{"Less", 7, compare, lessEval},
	{"Greater", 1, compareV1, greaterEval},
	{"Greater", 7, compare, greaterEval},
	{"LessOrEqual", 12, compare, compareEval(negated(swapped(less)), func(a, b float64) bool { return a <= b })},
	{"GreaterOrEqual", 12, compare, compareEval(negated(less), func(a, b float64) bool { return a >= b })},

	{"And", 1, compareV1, andEval},
	{"And", 7, compare, andEval},
	{"Or", 1, compareV1, orEval},
	{"Or", 7, compare, orEval},
	{"Xor", 1, compareV1, xorEval},
	{"Xor", 7, compare, xorEval},
	{"Not", 1, predicate, notEval},
	{"IsNaN", 9, predicate, nil}, // a NaN is how this package writes an unknown float
	{"IsInf", 10, predicate, nil},

	{"BitwiseAnd", 18, binary, bitsEval(func(a, b int64) int64 { return a & b })},
	{"BitwiseOr", 18, binary, bitsEval(func(a, b int64) int64 { return a | b })},
	{"BitwiseXor", 18, binary, bitsEval(func(a, b int64) int64 { return a ^ b })},
	{"BitwiseNot", 18, unary, unaryEval(func(_ *call, a Dim) Dim { return Sub(N(-1), a) }, nil)},
	{"BitShift", 11, binary, nil},

	{"Where", 9, where, whereEval},
}}

var (
	equalEval   = compareEval(equal, func(a, b float64) bool { return a == b })
	lessEval    = compareEval(less, func(a, b float64) bool { return a < b })
	greaterEval = compareEval(swapped(less), func(a, b float64) bool { return a > b })

	andEval = logicEval(func(c *call, a, b Dim) Dim {
		x, okA := a.Int()
		y, okB := b.Int()
		return c.truth(okA && okB && x != 0 && y != 0, okA && okB || okA && x == 0 || okB && y == 0)
	})
	orEval = logicEval(func(c *call, a, b Dim) Dim {
		x, okA := a.Int()
		y, okB := b.Int()
		return c.truth(okA && x != 0 || okB && y != 0, okA && okB || okA && x != 0 || okB && y != 0)
	})
	xorEval = logicEval(func(c *call, a, b Dim) Dim {
		x, okA := a.Int()
		y, okB := b.Int()
		return c.truth((x != 0) != (y != 0), okA && okB)
	})
	notEval = unaryEval(func(c *call, a Dim) Dim {
		x, ok := a.Int()
		return c.truth(x == 0, ok)
	}, nil)
)

type comparison = func(a, b Dim) (value, decided bool)

func swapped(f comparison) comparison {
	return func(a, b Dim) (bool, bool) { return f(b, a) }
}

func negated(f comparison) comparison {
	return func(a, b Dim) (bool, bool) {
		v, decided := f(a, b)
		return !v, decided
	}
}

// compare is binary with bools as the result.
func compare(c *call) {
	binary(c)
	if c.hasOut(0) {
		c.outs[0].Elem = onnxload.Bool
	}
}

// compareV1 is compare before opset 7.
func compareV1(c *call) {
	s := fitV1(c)
	c.out(0, onnxload.Bool, s)
}

func logicEval(f func(c *call, a, b Dim) Dim) func(*call) {
	return binaryEval(binaryFn{ints: f})
}

// bitsEval works on the bits of numbers; an open element has none.
func bitsEval(f func(a, b int64) int64) func(*call) {
	return binaryEval(binaryFn{ints: func(c *call, a, b Dim) Dim {
		x, okA := a.Int()
		y, okB := b.Int()
		if !okA || !okB {
			return unknownValue
		}
		return N(f(x, y))
	}})
}

// where picks from two inputs by a condition; all three stretch to each other.
func where(c *call) {
	c.need(3)
	s, err := broadcast(c.shape(0), c.shape(1), c.shape(2))
	if err != nil {
		if !MasksLeading(c.shape(0), c.shape(1), c.shape(2)) {
			c.check(err)
		}
		s = c.shape(2)
	}
	c.out(0, c.commonElem(1, 2), s)
}

// MasksLeading reports whether a Where is PyTorch's x[mask] = number, whose mask has the leading dimensions of x alone.
// The TorchScript exporter writes it as masked_fill (index_put in torch/onnx/symbolic_opset11.py), whose mask would be
// spread as ONNX's: its file is none that a runtime takes, and can mean nothing else.
func MasksLeading(mask, number, x Shape) bool {
	return mask.Ranked && number.Ranked && x.Ranked && len(number.Dims) == 0 && len(mask.Dims) > 0 &&
		len(mask.Dims) < len(x.Dims) && slices.EqualFunc(mask.Dims, x.Dims[:len(mask.Dims)], Dim.Equal)
}

func whereEval(c *call) {
	in := c.values(3)
	shape, n := c.outSize()
	proceedIf(!in[0].isFloat() && sameKind(in[1:]...))
	cond, x, y := in[0].expand(shape, n), in[1].expand(shape, n), in[2].expand(shape, n)
	out := x.like(shape, n)
	for i := range n {
		b, decided := cond.Ints[i].Int()
		switch {
		case decided && b != 0:
			out.copyElem(i, x, i)
		case decided:
			out.copyElem(i, y, i)
		case out.isFloat():
			out.Floats[i] = math.NaN()
			if x.Floats[i] == y.Floats[i] {
				out.Floats[i] = x.Floats[i]
			}
		case x.Ints[i].Equal(y.Ints[i]):
			out.Ints[i] = x.Ints[i]
		default:
			out.Ints[i] = unknownValue
		}
	}
	c.outConst(0, out)
}
