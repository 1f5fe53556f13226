package shape

import "math"

// mathFamily has the arithmetic operators that work element by element. Their rules are
// those of ONNX's operator reference, section of the operator's name.
var mathFamily = family{"", []op{
	{"Add", 1, binaryV1, addEval},
	{"Add", 7, binary, addEval},
	{"Sub", 1, binaryV1, subEval},
	{"Sub", 7, binary, subEval},
	{"Mul", 1, binaryV1, mulEval},
	{"Mul", 7, binary, mulEval},
	{"Div", 1, binaryV1, divEval},
	{"Div", 7, binary, divEval},
	{"Pow", 1, binaryV1, powEval},
	{"Pow", 7, powType, powEval},
	{"Mod", 10, binary, modEval},

	{"Sum", 1, variadicV1, addEval},
	{"Sum", 8, variadic, addEval},
	{"Mean", 1, variadicV1, nil},
	{"Mean", 8, variadic, nil},
	{"Max", 1, variadicV1, maxEval},
	{"Max", 8, variadic, maxEval},
	{"Min", 1, variadicV1, minEval},
	{"Min", 8, variadic, minEval},

	{"Abs", 1, unary, unaryEval(absDim, math.Abs)},
	{"Neg", 1, unary, unaryEval(func(_ *call, a Dim) Dim { return Sub(N(0), a) }, func(x float64) float64 { return -x })},
	{"Sign", 9, unary, unaryEval(signDim, floatSign)},
	{"Floor", 1, unary, floatEval(math.Floor)},
	{"Ceil", 1, unary, floatEval(math.Ceil)},
	{"Round", 11, unary, floatEval(math.RoundToEven)}, // halves go to the even neighbour
	{"Sqrt", 1, unary, floatEval(math.Sqrt)},
	{"Reciprocal", 1, unary, floatEval(func(x float64) float64 { return 1 / x })},
	{"Exp", 1, unary, floatEval(math.Exp)},
	{"Log", 1, unary, floatEval(math.Log)},
	{"Erf", 9, unary, floatEval(math.Erf)},
	{"Sin", 7, unary, floatEval(math.Sin)},
	{"Cos", 7, unary, floatEval(math.Cos)},
	{"Tan", 7, unary, floatEval(math.Tan)},
	{"Asin", 7, unary, floatEval(math.Asin)},
	{"Acos", 7, unary, floatEval(math.Acos)},
	{"Atan", 7, unary, floatEval(math.Atan)},
	{"Sinh", 9, unary, floatEval(math.Sinh)},
	{"Cosh", 9, unary, floatEval(math.Cosh)},
	{"Asinh", 9, unary, floatEval(math.Asinh)},
	{"Acosh", 9, unary, floatEval(math.Acosh)},
	{"Atanh", 9, unary, floatEval(math.Atanh)},

	{"Clip", 1, unary, nil},
	{"Clip", 11, unary, clipEval},
	{"CumSum", 11, cumulative, cumulativeEval(binaryFn{plain(Add), func(a, b float64) float64 { return a + b }}, 0)},
	{"CumProd", 26, cumulative, cumulativeEval(binaryFn{plain(Mul), func(a, b float64) float64 { return a * b }}, 1)},
}}

var (
	addEval = binaryEval(binaryFn{plain(Add), func(a, b float64) float64 { return a + b }})
	subEval = binaryEval(binaryFn{plain(Sub), func(a, b float64) float64 { return a - b }})
	mulEval = binaryEval(binaryFn{plain(Mul), func(a, b float64) float64 { return a * b }})
	divEval = binaryEval(binaryFn{truncDiv, func(a, b float64) float64 { return a / b }})
	maxEval = binaryEval(binaryFn{plain(Max), math.Max})
	minEval = binaryEval(binaryFn{plain(Min), math.Min})
	modInts = binaryEval(binaryFn{floorMod, nil})
	modTrun = binaryEval(binaryFn{truncMod, math.Mod})
)

// binary is the rule of two operands that stretch to each other (numpy's broadcasting).
func binary(c *call) {
	c.need(2)
	s := checked(broadcast(c.shape(0), c.shape(1)))
	c.out(0, c.commonElem(0, 1), s)
}

// binaryV1 is binary before opset 7: the result has the shape of A. B has the same shape;
// with broadcast=1 it is a scalar, or a run of A's dimensions that ends at the
// last one or begins at axis.
func binaryV1(c *call) {
	s := fitV1(c)
	c.out(0, c.commonElem(0, 1), s)
}

// fitV1 checks the operands of binaryV1 and returns the shape of the result.
func fitV1(c *call) Shape {
	c.need(2)
	a, b := c.shape(0), c.shape(1)
	if c.attrInt("broadcast", 0) == 0 {
		return checked(mergeShape(a, b))
	}
	if !a.Ranked || !b.Ranked || len(b.Dims) == 0 {
		return a
	}
	start := len(a.Dims) - len(b.Dims)
	if c.node.Attr("axis") != nil {
		start = c.axisAttr(0, len(a.Dims))
	}
	if start < 0 || start+len(b.Dims) > len(a.Dims) {
		c.fail("%v does not fit into %v at axis %d", b, a, start)
	}
	for i, d := range b.Dims {
		if n, ok := d.Int(); ok && n == 1 {
			continue
		}
		if _, err := agree("the size", a.Dims[start+i], d); err != nil {
			c.fail("%v does not fit into %v at axis %d", b, a, start)
		}
	}
	return a
}

// variadic is binary for any number of operands from one on.
func variadic(c *call) {
	c.need(max(1, len(c.node.In)))
	shapes := make([]Shape, len(c.node.In))
	for i := range shapes {
		shapes[i] = c.shape(i)
	}
	s := checked(broadcast(shapes...))
	c.out(0, c.commonElem(), s)
}

// variadicV1 is variadic before opset 8: all operands have the same shape.
func variadicV1(c *call) {
	c.need(max(1, len(c.node.In)))
	s := c.shape(0)
	for i := range c.node.In {
		s = checked(mergeShape(s, c.shape(i)))
	}
	c.out(0, c.commonElem(), s)
}

// powType is binary, but the result has the type of the base: the exponent may have another
// since opset 12.
func powType(c *call) {
	binary(c)
	if c.hasOut(0) {
		c.outs[0].Elem = c.elem(0)
	}
}

// powEval computes in the type of the base; an integer base takes an integer exponent, or
// a floating-point one that is whole.
func powEval(c *call) {
	in := c.values(2)
	shape, n := c.outSize()
	base, exp := in[0].expand(shape, n), in[1].expand(shape, n)
	out := base.like(shape, n)
	for i := range n {
		switch {
		case base.isFloat() && exp.isFloat():
			out.Floats[i] = math.Pow(base.Floats[i], exp.Floats[i])
		case base.isFloat():
			out.Floats[i] = math.NaN()
			if e, ok := exp.Ints[i].Int(); ok {
				out.Floats[i] = math.Pow(base.Floats[i], float64(e))
			}
		case exp.isFloat():
			out.Ints[i] = unknownValue
			if e := exp.Floats[i]; e == math.Trunc(e) && math.Abs(e) < 1<<31 {
				out.Ints[i] = intPow(c, base.Ints[i], N(int64(e)))
			}
		default:
			out.Ints[i] = intPow(c, base.Ints[i], exp.Ints[i])
		}
	}
	settle(out)
	c.outConst(0, out)
}

// modEval follows the attribute fmod: 0 is Python's %, 1 is C's.
func modEval(c *call) {
	if c.attrInt("fmod", 0) == 0 {
		modInts(c)
	} else {
		modTrun(c)
	}
}

// clipEval is Clip with its limits as optional scalar inputs.
func clipEval(c *call) {
	in := c.value(0)
	v := in.pick(in.Shape, in.Len(), 0, strides(in.Shape))
	for k := range 2 {
		if !c.has(1 + k) {
			continue
		}
		limit := c.value(1 + k)
		proceedIf(sameKind(v, limit))
		if limit.Len() != 1 {
			c.fail("limit of %d elements, a scalar is wanted", limit.Len())
		}
		for i := range v.Len() {
			switch {
			case v.isFloat() && k == 0:
				v.Floats[i] = math.Max(v.Floats[i], limit.Floats[0])
			case v.isFloat():
				v.Floats[i] = math.Min(v.Floats[i], limit.Floats[0])
			case k == 0:
				v.Ints[i] = Max(v.Ints[i], limit.Ints[0])
			default:
				v.Ints[i] = Min(v.Ints[i], limit.Ints[0])
			}
		}
	}
	settle(v)
	c.outConst(0, v)
}

// cumulative is the rule of running sums and products: the shape stays.
func cumulative(c *call) {
	c.needInts(2, 1)
	if dims, ok := c.dims(0); ok {
		if a, ok := c.int64s(1); ok && len(a) == 1 {
			checked(axis(a[0], len(dims)))
		}
	}
	unary(c)
}

// cumulativeEval runs f along the axis. With exclusive=1 an element is left out of its own
// result, with reverse=1 the run begins at the end.
func cumulativeEval(f binaryFn, neutral int64) func(*call) {
	return func(c *call) {
		v := c.value(0)
		a := c.value(1).numbers()
		proceedIf(len(a) == 1 && len(v.Shape) > 0)
		ax := checked(axis(a[0], len(v.Shape)))
		exclusive, reverse := c.attrInt("exclusive", 0) == 1, c.attrInt("reverse", 0) == 1
		out := v.like(v.Shape, v.Len())
		outer, mid, inner := split3(v.Shape, ax)
		for o := range outer {
			for i := range inner {
				sum, fsum := N(neutral), float64(neutral)
				for k := range mid {
					if reverse {
						k = mid - 1 - k
					}
					at := (o*mid+k)*inner + i
					before, fbefore := sum, fsum
					if v.isFloat() {
						fsum = f.floats(fsum, v.Floats[at])
						out.Floats[at] = fsum
						if exclusive {
							out.Floats[at] = fbefore
						}
						continue
					}
					sum = f.ints(c, sum, v.Ints[at])
					out.Ints[at] = sum
					if exclusive {
						out.Ints[at] = before
					}
				}
			}
		}
		settle(out)
		c.outConst(0, out)
	}
}
