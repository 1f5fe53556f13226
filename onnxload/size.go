package onnxload

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
)

// ErrOverflow is wrapped by errors about sizes that do not fit 64 bits.
var ErrOverflow = errors.New("does not fit in 64 bits")

// Elements returns the number of elements: the product of the dimensions, 1 for
// a scalar. A dimension of 0 makes it 0 whatever the others are. It is an error
// when a dimension is negative or the product does not fit.
func (t *Tensor) Elements() (int64, error) {
	n := int64(1)
	zero, over := false, false
	for i, d := range t.Dims {
		if d < 0 {
			return 0, fmt.Errorf("dim %d of %q is %d: want a number from 0 on", i, t.Name, d)
		}
		zero = zero || d == 0
		hi, lo := bits.Mul64(uint64(n), uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			over = true
			continue
		}
		n = int64(lo)
	}
	if zero {
		return 0, nil
	}
	if over {
		return 0, fmt.Errorf("size of %q, %s elements, %w", t.Name, dimsString(t.Dims), ErrOverflow)
	}
	return n, nil
}

// Bytes returns the size of the elements in bytes, from dimensions and type: types
// below 8 bits are packed, the last byte filled up. Strings have no fixed size
// and count as 0. A sparse tensor counts as its dense form: what it takes once used.
func (t *Tensor) Bytes() (int64, error) {
	n, err := t.Elements()
	if err != nil {
		return 0, err
	}
	hi, lo := bits.Mul64(uint64(n), uint64(t.DType.Bits()))
	if hi != 0 || lo > math.MaxInt64-7 {
		// ceil(n*bits/8) may fit where n*bits does not, if only for whole bytes.
		if w := uint64(t.DType.Bits()); w >= 8 {
			if hi, lo := bits.Mul64(uint64(n), w/8); hi == 0 && lo <= math.MaxInt64 {
				return int64(lo), nil
			}
		}
		return 0, fmt.Errorf("size of %q, %s of %s, %w", t.Name, dimsString(t.Dims), t.DType, ErrOverflow)
	}
	return int64((lo + 7) / 8), nil
}
