package shape

import (
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

// castFamily has the conversions between element types.
var castFamily = family{"", []op{
	{"Cast", 1, castV1, castEval}, // "to" is the type's name
	{"Cast", 6, cast, castEval},
	{"CastLike", 15, castLike, nil},
}}

// castV1 names the type by a string: "FLOAT", "INT64", ...
func castV1(c *call) {
	if a := c.node.Attr("to"); a == nil || a.Type != onnxload.AttrString {
		cast(c) // later writers stamped the old opset
		return
	}
	to, ok := castNames[c.attrStr("to", "")]
	if !ok {
		c.fail("attribute to is %q, which is no element type", c.attrStr("to", ""))
	}
	c.castTo(to)
}

var castNames = map[string]onnxload.DType{
	"FLOAT": onnxload.Float32, "UINT8": onnxload.Uint8, "INT8": onnxload.Int8, "UINT16": onnxload.Uint16,
	"INT16": onnxload.Int16,
	"INT32": onnxload.Int32, "INT64": onnxload.Int64, "STRING": onnxload.String, "BOOL": onnxload.Bool,
	"FLOAT16": onnxload.Float16,
	"DOUBLE":  onnxload.Float64, "UINT32": onnxload.Uint32, "UINT64": onnxload.Uint64, "COMPLEX64": onnxload.Complex64,
	"COMPLEX128": onnxload.Complex128,
}

func cast(c *call) {
	if c.node.Attr("to") == nil {
		c.fail("attribute to is missing")
	}
	to := c.attrElem("to", onnxload.Undefined)
	if !to.Valid() {
		c.fail("attribute to is %d, which is no element type", c.attrInt("to", 0))
	}
	c.castTo(to)
}

func castLike(c *call) {
	c.need(2)
	c.castTo(c.elem(1))
	castEval(c) // here, for the value of input 1 need not be known
}

func (c *call) castTo(to onnxload.DType) {
	c.need(1)
	if c.elem(0) == onnxload.Bool && to.IsInt() && c.hasOut(0) {
		if c.inf.masks == nil {
			c.inf.masks = map[onnxload.ValueID]bool{}
		}
		c.inf.masks[c.node.Out[0]] = true
	}
	c.out(0, to, c.shape(0))
}

// castEval converts a value to the type that infer gave the output.
func castEval(c *call) {
	if v := c.constant(0); v != nil && c.hasOut(0) {
		if out := c.convert(v, c.outs[0].Elem); out != nil {
			c.outConst(0, out)
		}
	}
}

// convert returns v as another type, or nil for types without evaluation. An open one
// becomes an unknown float (NaN), and an unknown float an unknown integer. Floats lose
// their fraction, integers wrap, and everything but zero is true.
func (c *call) convert(v *Const, to onnxload.DType) *Const {
	isInt := to == onnxload.Bool || to.IsInt()
	if !isInt && !to.IsFloat() || to.IsFloat() && to.Bits() < 16 {
		return nil
	}
	out := zeros(to, v.Shape, v.Len())
	for i := range v.Len() {
		switch {
		case v.isFloat() && !isInt:
			out.Floats[i] = v.Floats[i]
		case v.isFloat() && to == onnxload.Bool:
			out.Ints[i] = c.truth(v.Floats[i] != 0, !math.IsNaN(v.Floats[i]))
		case v.isFloat():
			x := math.Trunc(v.Floats[i])
			if math.IsNaN(x) || x < math.MinInt64 || x >= math.MaxInt64 {
				out.Ints[i] = unknownValue
				continue
			}
			out.Ints[i] = N(int64(x))
		case !isInt:
			out.Floats[i] = math.NaN()
			if n, ok := v.Ints[i].Int(); ok {
				out.Floats[i] = float64(n)
			}
		case to == onnxload.Bool:
			zero, decided := isZero(v.Ints[i])
			out.Ints[i] = c.truth(!zero, decided)
		default:
			out.Ints[i] = v.Ints[i]
		}
	}
	settle(out)
	return out
}
