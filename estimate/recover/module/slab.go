package module

import (
	"github.com/memestimate/memestimate/onnxload"
)

// A slab hands out short lists from longer ones, which spares an allocation each.
type slab[T any] struct{ free []T }

// take returns a list of n zero elements, not nil, that nothing else will append into.
func (s *slab[T]) take(n int) []T {
	if n > len(s.free) || s.free == nil {
		s.free = make([]T, max(n, 512))
	}
	list := s.free[:n:n]
	s.free = s.free[n:]
	return list
}

// rowMemory is what the rows of the layers are made of.
type rowMemory struct {
	names   slab[string]
	tensors slab[Tensor]
	values  slab[onnxload.ValueID]

	shapes [64][]int64 // some of those that were made, by their dimensions: many values have the same
	dims   []int64     // scratch
	outs   []onnxload.ValueID
	ops    []string // of the last row that has several, and what they were joined to
	joined string
}

// A scratch counts and marks values.
type scratch struct {
	inside []int32 // by value: see countInside
	seen   []int32 // by value: see first
	epoch  int32
}

func newScratch(values int) scratch {
	return scratch{inside: make([]int32, values), seen: make([]int32, values)}
}
