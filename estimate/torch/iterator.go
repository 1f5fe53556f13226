package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
)

// iteratorStrides returns the strides that TensorIterator gives an output of this
// shape that it allocates: dimensions ordered by the operands' strides
// (TensorIteratorBase::reorder_dimensions in aten/src/ATen/TensorIterator.cpp).
func iteratorStrides(shape []int64, operands ...*tensor) []int64 {
	n := len(shape)
	if n <= 1 {
		return kernels.RowMajor(shape)
	}
	at := func(t *tensor, d int) int64 { // stride of t for dimension d of the result, 0 where it broadcasts
		j := d - (n - len(t.shape))
		if j < 0 || t.shape[j] == 1 && shape[d] != 1 {
			return 0
		}
		return t.stride[j]
	}
	perm := make([]int, n)
	for i := range perm {
		perm[i] = n - 1 - i
	}
	shouldSwap := func(a, b int) int {
		for _, t := range operands {
			if t == nil || t.host {
				continue
			}
			x, y := at(t, a), at(t, b)
			switch {
			case x == 0 || y == 0:
				continue
			case x < y:
				return -1
			case x > y:
				return 1
			case shape[a] > shape[b]:
				return 1
			}
		}
		return 0
	}
	for i := 1; i < n; i++ {
		d1 := i
		for d0 := i - 1; d0 >= 0; d0-- {
			c := shouldSwap(perm[d0], perm[d1])
			if c > 0 {
				perm[d0], perm[d1] = perm[d1], perm[d0]
				d1 = d0
			} else if c < 0 {
				break
			}
		}
	}
	stride := make([]int64, n)
	s := int64(1)
	for _, d := range perm {
		stride[d] = s
		s *= max(shape[d], 1)
	}
	return stride
}

// pointwise returns the output of an element-wise operator: the broadcast shape
// in the layout that TensorIterator chooses.
func (r *run) pointwise(dtype program.DType, operands ...*tensor) *tensor {
	return r.laid(dtype, r.pointwiseLayout(operands...))
}

// pointwiseLayout is the layout of that.
func (r *run) pointwiseLayout(operands ...*tensor) *layout {
	// TensorIterator's fast set-up: operands that all have the output's shape and
	// one dense layout pass that layout on.
	if l := commonLayout(operands); l != nil {
		return l
	}
	shape := broadcastShape(operands...)
	return r.layouts.at(shape, pointwiseStrides(shape, operands...))
}

// commonLayout returns the layout of all operands where they visibly have one that is dense, nil otherwise.
func commonLayout(operands []*tensor) (l *layout) {
	for _, t := range operands {
		switch {
		case t == nil || t.host && len(t.shape) == 0:
		case t.host || l != nil && l != t.layout || !t.dense:
			return nil
		default:
			l = t.layout
		}
	}
	return l
}

func pointwiseStrides(shape []int64, operands ...*tensor) []int64 {
	var first *tensor
	same := true
	for _, t := range operands {
		if t == nil || t.host {
			continue
		}
		if !slices.Equal(t.shape, shape) {
			same = false
			break
		}
		if first == nil {
			first = t
		} else if !slices.Equal(first.stride, t.stride) {
			same = false
		}
	}
	if same && first != nil && first.dense {
		return first.stride
	}
	return iteratorStrides(shape, operands...)
}

func broadcastShape(operands ...*tensor) []int64 {
	shapes := make([][]int64, 0, 4)
	for _, t := range operands {
		if t != nil {
			shapes = append(shapes, t.shape)
		}
	}
	return program.BroadcastShapes(shapes...)
}
