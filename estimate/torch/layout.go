package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/kernels"
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
const maxElements = 8 * program.MaxBytes

// noDims is the layout of scalars.
var noDims = newLayout(nil, nil)

func newLayout(shape, stride []int64) *layout {
	k := len(shape)
	dims := append(append(make([]int64, 0, 2*k), shape...), stride...)
	l := &layout{shape: dims[:k:k], stride: dims[k:], elements: program.Numel(shape), room: 1,
		last: kernels.IsChannelsLast(shape, stride), dense: kernels.IsDense(shape, stride)}
	l.rowMajor = l.elements == 0 || kernels.IsRowMajor(shape, stride)
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
	at := &ls.other[program.HashDims(program.HashDims(0, shape), stride)%uint64(len(ls.other))]
	if l := *at; l == nil || !slices.Equal(l.shape, shape) || !slices.Equal(l.stride, stride) {
		*at = newLayout(shape, stride)
	}
	return *at
}

func (ls *layouts) rowMajor(shape []int64) *layout {
	at := &ls.rows[program.HashDims(0, shape)%uint64(len(ls.rows))]
	if l := *at; l == nil || !slices.Equal(l.shape, shape) {
		*at = newLayout(shape, kernels.RowMajor(shape))
	}
	return *at
}

// An arrangement returns how a tensor of a shape is to lie.
type arrangement func(*layouts, []int64) *layout

func inRows(ls *layouts, shape []int64) *layout { return ls.rowMajor(shape) }

func inChannels(ls *layouts, shape []int64) *layout {
	return ls.at(shape, kernels.ChannelsLast(shape))
}
