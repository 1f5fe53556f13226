package onnxload

import "math"

// floatBits returns the value of an element's bits.
func floatBits(b uint64, t DType) float64 {
	switch t {
	case Float64:
		return math.Float64frombits(b)
	case Float32:
		return float64(math.Float32frombits(uint32(b)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(b) << 16))
	}
	// float16: a sign, 5 bits of exponent, 10 of the fraction
	sign, exp, fraction := 1-2*float64(b>>15&1), int(b>>10&31), float64(b&1023)
	switch {
	case exp == 0:
		return sign * math.Ldexp(fraction, -24)
	case exp < 31:
		return sign * math.Ldexp(1024+fraction, exp-25)
	case fraction > 0:
		return math.NaN()
	}
	return math.Inf(int(sign))
}
