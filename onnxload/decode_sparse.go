package onnxload

import "fmt"

// sparse reads a SparseTensorProto, whose name is that of its values; init is as for tensor.
func (d *decoder) sparse(init bool) (t *Tensor, name ValueID) {
	t, name = d.tensors.one(), NoValue
	t.Sparse = &SparseTensor{}
	at := d.off()
	int0 := len(d.intBuf)
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1, 2:
			at := d.tagAt
			outer := d.enter(w, "SparseTensorProto")
			to := &t.Sparse.Values
			var x *Tensor
			if f == 1 {
				x, name = d.tensor(init)
			} else {
				x, _ = d.tensor(false)
				to = &t.Sparse.Indices
			}
			d.leave(outer)
			if *to != nil {
				d.fail(at, "a sparse tensor with two tensors of values or indices")
			}
			*to = x
		case 3:
			d.dimList(int0, w, "SparseTensorProto.dims")
		default:
			d.skipUnknown(w)
		}
	}
	if d.err != nil {
		return t, name
	}
	t.Dims = d.ints.copy(d.intBuf[int0:])
	d.intBuf = d.intBuf[:int0]
	if t.Sparse.Values == nil {
		d.fail(at, "a sparse tensor without values")
		return t, name
	}
	t.Name, t.DType = t.Sparse.Values.Name, t.Sparse.Values.DType
	if err := checkSparse(t); err != nil {
		d.refuse(&WireError{Offset: at, Msg: err.Error()})
	}
	return t, name
}

// checkSparse compares the shapes of a sparse tensor's parts.
func checkSparse(t *Tensor) error {
	n, err := t.Elements()
	if err != nil {
		return err
	}
	v, x := t.Sparse.Values, t.Sparse.Indices
	if len(v.Dims) != 1 {
		return fmt.Errorf("sparse tensor %q has values of rank %d, want 1", t.Name, len(v.Dims))
	}
	nnz := v.Dims[0]
	if nnz > n {
		return fmt.Errorf("sparse tensor %q has %d values, more than its %d elements", t.Name, nnz, n)
	}
	if x == nil {
		if nnz > 0 {
			return fmt.Errorf("sparse tensor %q has no indices", t.Name)
		}
		return nil
	}
	if x.DType != Int64 {
		return fmt.Errorf("sparse tensor %q has indices of %s, want int64", t.Name, x.DType)
	}
	linear := len(x.Dims) == 1 && x.Dims[0] == nnz
	coords := len(x.Dims) == 2 && x.Dims[0] == nnz && x.Dims[1] == int64(len(t.Dims))
	if !linear && !coords {
		return fmt.Errorf("sparse tensor %q has indices of shape %s, want [%d] or [%d %d]", t.Name, dimsString(x.Dims), nnz,
			nnz, len(t.Dims))
	}
	return nil
}
