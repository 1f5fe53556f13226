package torch

import (
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

// An arrangement returns how a tensor of a shape is to lie.
type arrangement func([]int64) *layout

func inRows(shape []int64) *layout { return newLayout(shape, kernels.RowMajor(shape)) }

func inChannels(shape []int64) *layout { return newLayout(shape, kernels.ChannelsLast(shape)) }
