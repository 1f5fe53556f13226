package torch

import (
	"slices"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A Tensor is what a block was made for.
type Tensor struct {
	DType program.DType
	Shape []int64 // as it was made; views may have others
	Saved string  // the autograd node that first keeps it for backward; "" where none does
}

// tensorsMade are what blocks were made for, by block, in 16 bytes each: a snapshot of a large model has millions.
type tensorsMade struct {
	list  timeline.Chunks[madeTensor]
	names []string // of autograd nodes that keep one
}

type madeTensor struct {
	layout *layout // nil for what no tensor has
	saved  int32   // one more than the index of the node's name
	dtype  program.DType
}

// add says what a block was made for.
func (m *tensorsMade) add(block int32, dtype program.DType, l *layout) {
	for int32(m.list.Len()) <= block {
		m.list.Add(madeTensor{})
	}
	*m.list.At(int(block)) = madeTensor{layout: l, dtype: dtype}
}

// keep says that an autograd node keeps a block for backward.
func (m *tensorsMade) keep(block int32, name string) {
	if block < 0 || int(block) >= m.list.Len() {
		return
	}
	made := m.list.At(int(block))
	if made.saved != 0 {
		return
	}
	k := slices.Index(m.names, name)
	if k < 0 {
		k = len(m.names)
		m.names = append(m.names, name)
	}
	made.saved = int32(k) + 1
}

// at returns what a block was made for.
func (m *tensorsMade) at(block int32) (t Tensor, ok bool) {
	if block < 0 || int(block) >= m.list.Len() {
		return t, false
	}
	made := m.list.At(int(block))
	if made.layout == nil || made.dtype == program.Undefined {
		return t, false
	}
	t = Tensor{DType: made.dtype, Shape: made.layout.shape}
	if made.saved > 0 {
		t.Saved = m.names[made.saved-1]
	}
	return t, true
}
