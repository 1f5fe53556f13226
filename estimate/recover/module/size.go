package module

import (
	"errors"
	"math"
	"math/bits"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
)

// ErrTooBig is the cause of every error about a size that leaves int64.
var ErrTooBig = errors.New("its size does not fit 64 bits")

// Elements returns the product of dims. A zero makes it zero whatever the others
// are; a negative dimension or a product beyond int64 is errTooBig.
func Elements(dims []int64) (int64, error) {
	n := uint64(1)
	over := false
	for _, d := range dims {
		if d < 0 {
			return 0, ErrTooBig
		}
		if d == 0 {
			return 0, nil
		}
		hi, lo := bits.Mul64(n, uint64(d))
		over = over || hi != 0 || lo > math.MaxInt64
		n = lo
	}
	if over {
		return 0, ErrTooBig
	}
	return int64(n), nil
}

// TensorBytes returns the number of elements and of bytes of a tensor; types below
// 8 bits are packed, and the last byte is rounded up. Strings have no size: 0 bytes.
func TensorBytes(elem onnxload.DType, dims []int64) (count, bytes int64, err error) {
	if count, err = Elements(dims); err != nil {
		return 0, 0, err
	}
	hi, lo := bits.Mul64(uint64(count), uint64(elem.Bits()))
	if hi != 0 || lo > math.MaxInt64 {
		return 0, 0, ErrTooBig
	}
	return count, int64(lo/8 + (lo%8+7)/8), nil
}

// Add adds b to *sum; both are not negative.
func Add(sum *int64, b int64) error {
	if b > math.MaxInt64-*sum {
		return ErrTooBig
	}
	*sum += b
	return nil
}

// A sized is the size of one value: nothing when it is not a tensor.
type sized struct {
	elem  onnxload.DType
	dims  []int64 // nil when unknown
	bytes int64
	known bool
}

// sizeOf returns the size of a value of type t. Data-dependent dimensions take
// their limit.
func sizeOf(t shape.Type) (sized, error) {
	s := sized{elem: t.Elem}
	if t.Kind != onnxload.TensorType || !t.Shape.Ranked {
		return s, nil
	}
	dims := make([]int64, 0, len(t.Shape.Dims))
	for _, d := range t.Shape.Dims {
		n, ok := d.Most()
		if !ok {
			return s, nil
		}
		dims = append(dims, n)
	}
	_, bytes, err := TensorBytes(t.Elem, dims)
	if err != nil {
		return s, err
	}
	s.dims, s.bytes, s.known = dims, bytes, t.Elem.Bits() != 0
	return s, nil
}
