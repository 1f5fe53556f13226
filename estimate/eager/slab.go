package eager

// A slab hands out values that it allocates many at a time: a run makes thousands, and none outlives it.
type slab[T any] struct {
	free []T
	used []*T // to be handed out again
}

const slabSize = 256

// one returns a value; what it holds is not cleared.
func (s *slab[T]) one() *T {
	if n := len(s.used); n > 0 {
		v := s.used[n-1]
		s.used = s.used[:n-1]
		return v
	}
	return &s.some(1)[0]
}

// some returns a list of n zero values.
func (s *slab[T]) some(n int) []T {
	if n > len(s.free) {
		if n > slabSize/8 {
			return make([]T, n)
		}
		s.free = make([]T, slabSize)
	}
	list := s.free[:n:n]
	s.free = s.free[n:]
	return list
}

// remains are tensors and storages that nothing in the run refers to any more. Their memory is taken for new ones,
// but not at once: whoever released one may look at its shape until it is done, and the nodes of the
// graph remember the tensors that their operators had.
type remains struct {
	tensors  []*tensor
	storages []*storage
}

// kept is the index into run.gone.
func kept(brief bool) int {
	if brief {
		return 1
	}
	return 0
}

// recycle is called between two calls or nodes: what was made while nothing was recorded is known to nobody then. All
// says that no graph will run any more, so that the same holds of everything else.
func (r *run) recycle(all bool) {
	for i := range r.gone {
		k := &r.gone[i]
		if i != kept(true) && !all || len(k.tensors)+len(k.storages) == 0 {
			continue
		}
		r.tensors.used = append(r.tensors.used, k.tensors...)
		r.storages.used = append(r.storages.used, k.storages...)
		k.tensors, k.storages = k.tensors[:0], k.storages[:0]
	}
}
