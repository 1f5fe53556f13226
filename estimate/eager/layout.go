package eager

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/aten"
)

// A layout is a shape with the strides, in elements, at which it lies. Tensors share layouts, so nobody writes to one.
type layout struct {
	shape, stride []int64

	elements int64
	room     int64 // elements, were no dimension of size 0; more than maxElements for any number above that
	rowMajor bool
	last     bool // channels last
	dense    bool
}

// maxElements is how many elements the largest tensor can have, of one bit each.
const maxElements = 8 * aten.MaxBytes

// noDims is the layout of scalars.
var noDims = newLayout(nil, nil)

func newLayout(shape, stride []int64) *layout {
	k := len(shape)
	dims := append(append(make([]int64, 0, 2*k), shape...), stride...)
	l := &layout{shape: dims[:k:k], stride: dims[k:], elements: aten.Numel(shape), room: 1, last: isChannelsLast(shape, stride), dense: isDense(shape, stride)}
	l.rowMajor = l.elements == 0 || isRowMajor(shape, stride)
	for _, n := range shape {
		if n < 0 || max(n, 1) > maxElements/l.room {
			l.room = maxElements + 1
			break
		}
		l.room *= max(n, 1)
	}
	return l
}

// layouts hold the layouts that a run has met last, by what they are: models have few, and finding one costs no memory.
type layouts struct {
	rows  [256]*layout // row-major, by their shapes
	other [256]*layout
}

func (ls *layouts) at(shape, stride []int64) *layout {
	at := &ls.other[aten.HashDims(aten.HashDims(0, shape), stride)%uint64(len(ls.other))]
	if l := *at; l == nil || !slices.Equal(l.shape, shape) || !slices.Equal(l.stride, stride) {
		*at = newLayout(shape, stride)
	}
	return *at
}

func (ls *layouts) rowMajor(shape []int64) *layout {
	at := &ls.rows[aten.HashDims(0, shape)%uint64(len(ls.rows))]
	if l := *at; l == nil || !slices.Equal(l.shape, shape) {
		*at = newLayout(shape, contiguousStrides(shape))
	}
	return *at
}

// An arrangement returns how a tensor of a shape is to lie.
type arrangement func(*layouts, []int64) *layout

func inRows(ls *layouts, shape []int64) *layout { return ls.rowMajor(shape) }

func inChannels(ls *layouts, shape []int64) *layout { return ls.at(shape, channelsLastStrides(shape)) }

// contiguousStrides returns the strides of a row-major tensor. As in PyTorch, a
// dimension of size 0 counts as 1.
func contiguousStrides(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n *= max(shape[i], 1)
	}
	return s
}

// channelsLastStrides returns the strides of NHWC or NDHWC order.
func channelsLastStrides(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	order := []int{1}
	for i := len(shape) - 1; i >= 2; i-- {
		order = append(order, i)
	}
	for _, i := range append(order, 0) {
		s[i] = n
		n *= max(shape[i], 1)
	}
	return s
}

// isRowMajor reports row-major order; the strides of dimensions of size 1 do
// not matter.
func isRowMajor(shape, stride []int64) bool {
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			if stride[i] != n {
				return false
			}
			n *= shape[i]
		}
	}
	return true
}

// isChannelsLast reports NHWC or NDHWC order as is_channels_last_strides_2d of
// c10/core/MemoryFormat.h decides it, by the strides alone.
func isChannelsLast(shape, stride []int64) bool {
	if len(shape) != 4 && len(shape) != 5 || stride[1] == 0 {
		return false
	}
	least := int64(0)
	order := []int{1, 3, 2, 0}
	if len(shape) == 5 {
		order = []int{1, 4, 3, 2, 0}
	}
	for _, d := range order {
		if shape[d] == 0 || stride[d] < least {
			return false
		}
		// [N,1,1,1] with the strides of a row-major tensor is not channels last.
		if d == 0 && least == stride[1] {
			return false
		}
		least = stride[d]
		if shape[d] > 1 {
			least *= shape[d]
		}
	}
	return true
}

// isDense reports whether the elements fill their storage without gaps or
// overlaps, in some order of the dimensions.
func isDense(shape, stride []int64) bool {
	perm := make([]int, 0, 8)
	for i, n := range shape {
		if n == 0 {
			return true
		}
		if n > 1 {
			perm = append(perm, i)
		}
	}
	slices.SortFunc(perm, func(a, b int) int { return int(min(1, max(-1, stride[a]-stride[b]))) })
	n := int64(1)
	for _, i := range perm {
		if stride[i] != n {
			return false
		}
		n *= shape[i]
	}
	return true
}
