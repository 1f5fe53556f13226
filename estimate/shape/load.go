package shape

import (
	"errors"

	"github.com/memestimate/memestimate/onnxload"
)

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
