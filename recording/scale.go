package recording

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memestimate/memestimate/simulate/kernels"
)

// A Family is one program recorded at two batch sizes. Every size of a tensor follows from the two as a straight line
// in the batch; what storages take is the product of their tensors' sizes, so that scores of all pairs of samples are
// right too.
type Family struct {
	a, b           *Recording
	batchA, batchB int64
	input          int32 // the storage whose tensor shows the batch
	dim            int   // and its dimension

	events [][2]int32 // the events that both have, by their places
	values [][2]int32 // the first values of calls, by their places
	search bool       // both have the searches of the same passes
	dense  []densely  // by storage
}

// densely says of a storage that a tensor fills it.
type densely struct {
	meta [2]int32
	elem int64 // bytes; 0 where no tensor does
}

// NewFamily tells whether two recordings are of the same program at two batch sizes. The error names the first call
// at which they part.
func NewFamily(a, b *Recording) (*Family, error) {
	f := &Family{a: a, b: b, dense: make([]densely, min(a.Storages, b.Storages))}
	if err := f.batches(); err != nil {
		return nil, err
	}
	if err := f.match(); err != nil {
		return nil, err
	}
	f.search = slices.EqualFunc(a.Searches, b.Searches, Search.alike)
	return f, nil
}

// Batches returns the batch sizes of the two recordings.
func (f *Family) Batches() (a, b int64) { return f.batchA, f.batchB }

// batches finds the dimension of an input in which the two differ. Tokens that a model takes apart before its first
// layer sees them were recorded as labels.
func (f *Family) batches() error {
	given := func(r *Recording) []Named {
		s := r.Summary()
		return append(s.Inputs, s.Labels...)
	}
	x, y := given(f.a), given(f.b)
	for i := range min(len(x), len(y)) {
		if x[i].Meta < 0 || y[i].Meta < 0 || x[i].Storage != y[i].Storage {
			continue
		}
		p, q := f.a.Metas[x[i].Meta].Shape, f.b.Metas[y[i].Meta].Shape
		for d := range min(len(p), len(q)) {
			if p[d] != q[d] {
				f.batchA, f.batchB, f.input, f.dim = p[d], q[d], x[i].Storage, d
				return nil
			}
		}
	}
	return fmt.Errorf("the inputs have the same sizes in both recordings: there is no batch to follow")
}

// skipped are events of which each recording has its own.
func skipped(k Kind) bool { return k == Note || k == Depends || k == Allocated || k == ResetPeak }

// match pairs the events of the two.
func (f *Family) match() error {
	i, j := 0, 0
	for {
		for i < len(f.a.Events) && skipped(f.a.Events[i].Kind) {
			i++
		}
		for j < len(f.b.Events) && skipped(f.b.Events[j].Kind) {
			j++
		}
		if i == len(f.a.Events) && j == len(f.b.Events) {
			return nil
		}
		if i == len(f.a.Events) || j == len(f.b.Events) {
			return fmt.Errorf("one of the recordings goes on where the other ends: after event %d", min(i, j))
		}
		if err := f.pair(i, j); err != nil {
			return fmt.Errorf("the recordings part at event %d: %w", i+1, err)
		}
		f.events = append(f.events, [2]int32{int32(i), int32(j)})
		i++
		j++
	}
}

// pair compares two events.
func (f *Family) pair(i, j int) error {
	x, y := &f.a.Events[i], &f.b.Events[j]
	if x.Kind != y.Kind || x.What != y.What {
		return fmt.Errorf("%s and %s", f.a.describe(x), f.b.describe(y))
	}
	switch x.Kind {
	case CallEvent:
		return f.calls(&f.a.Calls[x.A], &f.b.Calls[y.A])
	case Is:
		if x.A != y.A || f.a.Texts[x.B] != f.b.Texts[y.B] {
			return fmt.Errorf("%q and %q", f.a.Texts[x.B], f.b.Texts[y.B])
		}
	default:
		if x.A != y.A || x.B != y.B {
			return fmt.Errorf("%s of %d and of %d", kindWords[x.Kind], x.A, y.A)
		}
	}
	return nil
}

// describe names an event.
func (r *Recording) describe(e *Event) string {
	if e.Kind == CallEvent {
		return r.Ops[r.Calls[e.A].Op].String()
	}
	return kindWords[e.Kind]
}

// calls compares two calls, and notes which tensors fill their storages.
func (f *Family) calls(x, y *Call) error {
	op, other := f.a.Ops[x.Op], f.b.Ops[y.Op]
	if op != other {
		return fmt.Errorf("%s and %s", op, other)
	}
	f.values = append(f.values, [2]int32{x.args, y.args})
	p, q := f.a.Values[x.args:x.end], f.b.Values[y.args:y.end]
	if len(p) != len(q) || x.results-x.args != y.results-y.args {
		return fmt.Errorf("%s of %d and of %d arguments", op, len(p), len(q))
	}
	for k := range p {
		v, w := p[k], q[k]
		if v.Kind() != w.Kind() || v.Kind() == List && v != w {
			return fmt.Errorf("%s with another argument %d", op, k)
		}
		if v.Kind() != Tensor {
			continue
		}
		s, on := v.Storage()
		if t, _ := w.Storage(); s != t {
			return fmt.Errorf("%s of another tensor", op)
		}
		m, n := &f.a.Metas[v.Meta()], &f.b.Metas[w.Meta()]
		if m.DType != n.DType || len(m.Shape) != len(n.Shape) {
			return fmt.Errorf("%s of %s%v and %s%v", op, m.DType, m.Shape, n.DType, n.Shape)
		}
		if on && f.dense[s].elem == 0 {
			f.dense[s] = densely{meta: [2]int32{v.Meta(), w.Meta()}, elem: kernels.NewTensor(m.DType, nil, nil, false).Elem}
		}
	}
	return nil
}

// At returns the recording as it would be at another batch size.
func (f *Family) At(batch int64) (*Recording, error) {
	if batch < 1 {
		return nil, fmt.Errorf("a batch of %d, wanted 1 or more", batch)
	}
	s := &scaler{Family: f, batch: batch, metas: map[[2]int32]int32{}}
	return s.run()
}

// Check holds a third recording against what the two foretell, and returns what is else in it: "" where all is as
// foretold.
func (f *Family) Check(c *Recording) (difference string, err error) {
	other, err := NewFamily(f.a, c)
	if err != nil {
		return "", err
	}
	if other.input != f.input || other.dim != f.dim {
		return "", fmt.Errorf("the third recording differs from the first in another input")
	}
	foretold, err := f.At(other.batchB)
	if err != nil {
		return "", err
	}
	layers := foretold.layersOfStorages()
	sizes := make([]int64, c.Storages)
	for i := range c.Events {
		if e := &c.Events[i]; e.Kind == Alloc {
			sizes[e.A] = e.Bytes
		}
	}
	for i := range foretold.Events {
		if e := &foretold.Events[i]; e.Kind == Alloc && e.Bytes != sizes[e.A] {
			const uneven = "at batch %d a tensor%s takes %d bytes, where batches %d and %d foretell %d: " +
				"it does not grow in proportion"
			return fmt.Sprintf(uneven,
				other.batchB, layers[e.A], sizes[e.A], f.batchA, f.batchB, e.Bytes), nil
		}
	}
	return "", nil
}

// layersOfStorages says in which module storages begin, as " of NAME".
func (r *Recording) layersOfStorages() map[int32]string {
	of, module := map[int32]string{}, int32(NoModule)
	for i := range r.Events {
		switch e := &r.Events[i]; e.Kind {
		case CallEvent:
			module = r.Calls[e.A].Module
		case Alloc:
			if module != NoModule {
				of[e.A] = fmt.Sprintf(" of %q", r.Modules[module].Name)
			}
		default:
			module = NoModule
		}
	}
	return of
}

// A scaler makes the recording of one batch size.
type scaler struct {
	*Family
	batch int64
	out   *Recording
	metas map[[2]int32]int32 // the layouts that it made of two
	err   error              // the first
}

func (s *scaler) run() (*Recording, error) {
	a := s.a
	s.out = &Recording{
		Header: a.Header, Ops: a.Ops, Frames: a.Frames, Modules: a.Modules, Texts: a.Texts, Storages: a.Storages,
		NCCL: a.NCCL, Communicators: a.Communicators,
		Calls: a.Calls, Values: slices.Clone(a.Values), Events: make([]Event, 0, len(a.Events)),
		Asks: slices.Clone(a.Asks),
	}
	for i := range s.out.Asks { // what another answer changes at another batch is not known
		ask := &s.out.Asks[i]
		ask.Bytes = Unweighed
		if ask.More > 0 {
			ask.More = Unweighed
		}
	}
	s.scaleValues()
	s.scaleSearches()
	at := 0
	for i := range a.Events {
		e := a.Events[i]
		if e.Kind == Allocated {
			continue
		}
		if at < len(s.events) && int(s.events[at][0]) == i {
			other := &s.b.Events[s.events[at][1]]
			at++
			if e.Kind == Alloc || e.Kind == Resize {
				e.Bytes = s.bytes(&e, other)
			}
		}
		s.out.Events = append(s.out.Events, e)
	}
	if s.err != nil {
		return nil, s.err
	}
	return s.out, nil
}

// bytes returns what a storage takes: the product of the sizes of a tensor that fills it, where one does at both
// batches.
func (s *scaler) bytes(x, y *Event) int64 {
	if d := s.dense[x.A]; d.elem > 0 {
		p, q := &s.a.Metas[d.meta[0]], &s.b.Metas[d.meta[1]]
		if product(p.Shape)*d.elem == x.Bytes && product(q.Shape)*d.elem == y.Bytes {
			return product(s.out.Metas[s.meta(d.meta)].Shape) * d.elem
		}
	}
	return s.must(x.Bytes, y.Bytes)
}

// scaleValues scales layouts and whole numbers among the values.
func (s *scaler) scaleValues() {
	for k, first := range s.values {
		end := len(s.a.Values)
		if k+1 < len(s.values) {
			end = int(s.values[k+1][0])
		}
		for i := 0; int(first[0])+i < end; i++ {
			v, w := s.a.Values[int(first[0])+i], s.b.Values[int(first[1])+i]
			switch v.Kind() {
			case Tensor:
				storage, _ := v.Storage()
				s.out.Values[int(first[0])+i] = tensorValue(storage, s.meta([2]int32{v.Meta(), w.Meta()}))
			case Int:
				if n, err := s.line(v.Int(), w.Int()); err == nil {
					s.out.Values[int(first[0])+i] = intValue(n)
				}
			}
		}
	}
}

// meta returns the layout that a pair of layouts makes.
func (s *scaler) meta(pair [2]int32) int32 {
	if m, ok := s.metas[pair]; ok {
		return m
	}
	x, y := &s.a.Metas[pair[0]], &s.b.Metas[pair[1]]
	m := Meta{DType: x.DType, Shape: make([]int64, len(x.Shape)), Stride: make([]int64, len(x.Shape))}
	n := int64(1)
	for i := range x.Shape {
		m.Shape[i] = s.must(x.Shape[i], y.Shape[i])
		if n *= max(m.Shape[i], 1); n > maxBytes {
			s.err = cmp.Or(s.err, fmt.Errorf("a tensor of sizes %v is larger than any computer's memory", m.Shape))
			n = maxBytes
		}
	}
	order := inOrder(x, y)
	for i := range x.Shape {
		if order == nil {
			m.Stride[i] = s.must(x.Stride[i], y.Stride[i])
		}
	}
	next := int64(1)
	for _, d := range order {
		m.Stride[d] = next
		next *= max(m.Shape[d], 1)
	}
	if offset, err := s.line(x.Offset, y.Offset); err == nil {
		m.Offset = offset
	}
	id := int32(len(s.out.Metas))
	s.out.Metas = append(s.out.Metas, m)
	s.metas[pair] = id
	return id
}

// inOrder returns the order, the innermost first, in which both layouts' dimensions lie without gaps, nil where they
// do not.
func inOrder(x, y *Meta) []int {
	order := make([]int, len(x.Shape))
	for i := range order {
		order[i] = len(order) - 1 - i
	}
	slices.SortStableFunc(order, func(p, q int) int { return cmp.Compare(x.Stride[p], x.Stride[q]) })
	for _, m := range [...]*Meta{x, y} {
		n := int64(1)
		for _, d := range order {
			if m.Stride[d] != n {
				return nil
			}
			n *= max(m.Shape[d], 1)
		}
	}
	return order
}
