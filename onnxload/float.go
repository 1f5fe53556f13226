package onnxload

import "math"

// A narrow is a floating-point format below 32 bits: sign, exponent, mantissa.
type narrow struct {
	exp, man uint
	bias     int
	// What the largest codes mean: ieee keeps them for infinity and NaN; fn has
	// one NaN and no infinity; fnuz has no negative zero, whose code is NaN; none has neither.
	special byte
}

const (
	ieee = iota
	fn
	fnuz
	none
)

// narrows follows ONNX's documents on float8 and float4, which follow
// OCP's specifications of OFP8 and MX formats.
var narrows = map[DType]narrow{
	Float16:        {5, 10, 15, ieee},
	BFloat16:       {8, 7, 127, ieee},
	Float8E4M3FN:   {4, 3, 7, fn},
	Float8E4M3FNUZ: {4, 3, 8, fnuz},
	Float8E5M2:     {5, 2, 15, ieee},
	Float8E5M2FNUZ: {5, 2, 16, fnuz},
	Float4E2M1:     {2, 1, 1, none},
}

// floatBits returns the value of an element's bits.
func floatBits(b uint64, t DType) float64 {
	switch t {
	case Float64:
		return math.Float64frombits(b)
	case Float32:
		return float64(math.Float32frombits(uint32(b)))
	case Float8E8M0: // a power of two without sign
		if b&255 == 255 {
			return math.NaN()
		}
		return math.Ldexp(1, int(b&255)-127)
	}
	f, ok := narrows[t]
	if !ok {
		return math.NaN()
	}
	man := b & (1<<f.man - 1)
	exp := b >> f.man & (1<<f.exp - 1)
	negative := b>>(f.man+f.exp)&1 != 0
	top := uint64(1)<<f.exp - 1
	switch {
	case f.special == ieee && exp == top && man != 0,
		f.special == fn && exp == top && man == 1<<f.man-1,
		f.special == fnuz && exp == 0 && man == 0 && negative:
		return math.NaN()
	case f.special == ieee && exp == top:
		if negative {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}
	var v float64
	if exp == 0 {
		v = math.Ldexp(float64(man), 1-f.bias-int(f.man))
	} else {
		v = math.Ldexp(float64(man|1<<f.man), int(exp)-f.bias-int(f.man))
	}
	if negative {
		v = -v
	}
	return v
}
