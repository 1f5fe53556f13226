package kernels

import "math/bits"

// saturate multiplies numbers that are not negative; what would exceed convMaximum,
// which no memory holds, becomes that.
func saturate(factors ...int64) int64 {
	product := int64(1)
	for _, v := range factors {
		if v == 0 {
			return 0
		}
		if product > convMaximum/v {
			product = convMaximum
		} else {
			product *= v
		}
	}
	return product
}

// padTo returns the first multiple of to that is not below n.
func padTo(n, to int64) int64 {
	if n > convMaximum {
		return n
	}
	return (n + to - 1) / to * to
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

// lastPow2 returns the largest power of two that is not above n, and 1 for less.
func lastPow2(n int64) int64 {
	if n < 1 {
		return 1
	}
	return 1 << (bits.Len64(uint64(n)) - 1)
}
