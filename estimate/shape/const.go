package shape

import (
	"errors"

	"github.com/memestimate/memestimate/onnxload"
)

// A Const is the value of a small tensor. Integer and bool tensors have Ints, whose
// elements may be open; floating-point tensors have Floats. A tensor
// without elements has the one that its type asks for, empty but not nil.
type Const struct {
	Elem   onnxload.DType
	Shape  []int64
	Ints   []Dim
	Floats []float64

	stored  *onnxload.Tensor // the value lies here and was not read yet; nothing else is set
	pending *onnxload.Node   // the value comes out of here and was not computed yet; nothing else is set
}

// Len returns the number of elements.
func (v *Const) Len() int {
	if v.Ints != nil {
		return len(v.Ints)
	}
	return len(v.Floats)
}

// constant returns the value of a tensor, or nil when it is not known. Values that
// lie in the file are read when they are first asked for, and long ones computed then.
func (f *inferer) constant(id onnxload.ValueID) *Const {
	v := f.consts[id]
	if v == nil {
		t := f.m.Values[id].Init
		if t == nil {
			return nil
		}
		v = &Const{stored: t}
	}
	if v.stored != nil {
		if v = f.read(v.stored); v == nil {
			v = unreadable
		}
		f.consts[id] = v
	}
	if v == unreadable {
		return nil
	}
	if v.pending != nil {
		return f.compute(id, v.pending)
	}
	return v
}

// known reports whether a value may be a constant, without reading it.
func (f *inferer) known(id onnxload.ValueID) bool {
	if v := f.consts[id]; v != nil {
		return v != unreadable
	}
	return f.m.Values[id].Init != nil
}

// unreadable stands for the value of a stored tensor that cannot be had: too large,
// stripped, or of a type that no shape depends on.
var unreadable = &Const{}

// read fetches the value of a small tensor from the file; nil when there is none.
func (f *inferer) read(t *onnxload.Tensor) *Const {
	v, err := readConst(f.m, t)
	switch {
	case err == nil:
		return v
	case errors.Is(err, onnxload.ErrNoData):
		if t.DType.IsInt() {
			f.notes.add(err.Error() + "; shapes that depend on it are not known")
		}
	default:
		f.notes.add(err.Error())
	}
	return nil
}

// readConst fetches the value of a small tensor. It is nil without an error when the
// tensor is too large or not of numbers.
func readConst(m *onnxload.Model, t *onnxload.Tensor) (*Const, error) {
	if n, ok := Product(OfInts(t.Dims...).Dims...).Int(); !ok || n > maxConst {
		return nil, nil
	}
	v := &Const{Elem: t.DType, Shape: t.Dims}
	if v.Shape == nil {
		v.Shape = []int64{}
	}
	var err error
	switch {
	case t.HasInts():
		var ints []int64
		if ints, err = m.Ints(t); err == nil {
			v.Ints = toDims(ints)
		}
	case t.HasFloats():
		v.Floats, err = m.Floats(t)
	default:
		return nil, nil
	}
	if errors.Is(err, onnxload.ErrTooLarge) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Values are computed as soon as their inputs are known while they are short, as
// those that decide shapes are. Longer ones, such as attention masks and position tables, wait
// until a rule asks for them, which few do.
const (
	eagerLen = 64 // elements up to which a value is computed at once

	// maxPending bounds how many values that wait are computed inside each other.
	maxPending = 256

	// How many elements all evaluations together may read and write, lists of types included: a fixed part for
	// tables, and a few elements for each value of the model. It keeps memory and time in
	// proportion to the file, whose nodes could each ask for a value of maxConst, or a list of maxListed.
	maxElems         = 1 << 22
	maxElemsPerValue = 16
)

// afford takes n elements from what may still be computed, and reports whether they were left.
func (f *inferer) afford(n int) bool {
	limit := maxElems + maxElemsPerValue*len(f.m.Values)
	if f.elems+n > limit {
		return false
	}
	f.elems += n
	return true
}

// work returns how many elements an evaluation reads and writes, and whether any of the tensors
// is long.
func (c *call) work() (n int, long bool) {
	count := func(t Type) {
		if shape, ok := t.Shape.Ints(); ok {
			if k, ok := sizeOf(shape); ok {
				n += k
				long = long || k > eagerLen
			}
		}
	}
	for _, t := range c.ins {
		count(t)
	}
	for _, t := range c.outs {
		count(t)
	}
	return n, long
}

// postpone reports whether the values of c's outputs are not to be computed now: long ones wait
// for a rule that asks for them. In a body, which may be inferred again with
// other inputs, nothing waits, but what cannot be afforded has no value.
func (f *inferer) postpone(c *call) bool {
	n, long := c.work()
	if !long {
		return false
	}
	if f.depth > 0 {
		return !f.afford(n)
	}
	for i := range c.outs {
		if c.hasOut(i) {
			c.results[i] = &Const{pending: c.node}
		}
	}
	return true
}

// compute finds the value of id, which waits for node n, or nil. The inputs of n have the
// types and values that they had when n was inferred.
func (f *inferer) compute(id onnxload.ValueID, n *onnxload.Node) *Const {
	for _, o := range n.Out {
		if o != onnxload.NoValue {
			f.consts[o] = unreadable // until it is there, and if it cannot be had
		}
	}
	row := f.row(n)
	if row == nil || row.eval == nil || f.computing >= maxPending {
		return nil
	}
	f.computing++
	defer func() { f.computing-- }()
	c := &call{inf: f}
	c.reset(n)
	for i, o := range n.Out {
		c.outs[i] = f.typeOf(o)
	}
	if n, _ := c.work(); !f.afford(n) {
		return nil
	}
	// A value that breaks a rule, an index outside its axis for one, has no part in any
	// shape so far: it is not known then.
	if c.follow(row.eval) != nil {
		return nil
	}
	for i, o := range n.Out {
		if v := c.results[i]; o != onnxload.NoValue && v != nil {
			f.consts[o] = v
		}
	}
	if v := f.consts[id]; v != unreadable {
		return v
	}
	return nil
}
