package onnxload

// value reads a ValueInfoProto.
func (d *decoder) value() rawValue {
	v := rawValue{}
	hasType := false
	at := d.off()
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			v.name = int32(d.listedID(w, "ValueInfoProto.name"))
		case 2:
			if hasType {
				d.fail(d.tagAt, "a second type of one value")
			}
			v.typ = d.sharedType(w, "ValueInfoProto.type")
			hasType = true
		case 3: // doc_string
			d.skip(d.length(w, "ValueInfoProto.doc_string"))
		case 4: // metadata_props
			d.inside(w, "ValueInfoProto.metadata_props", func() { d.specEntry(&v.spec, &v.folded) })
		default:
			d.skipUnknown(w)
		}
	}
	if d.err == nil && v.typ != nil {
		for i, dim := range v.typ.Dims {
			switch {
			case !dim.Known || dim.Size >= 0:
			case dim.Size == -1: // how TensorFlow and NumPy write a size that is not known
				v.typ.Dims[i] = Dim{}
				d.odd.add("sizes of -1", "dim %d of %q is -1: read as not known", i, d.nameOf(v.name))
			default:
				d.fail(at, "dim %d of %q is %d: want a number from 0 on, or a symbol", i, d.nameOf(v.name), dim.Size)
			}
		}
	}
	return v
}

func (d *decoder) nameOf(id int32) string {
	return d.names.strs[id]
}

// sharedType reads the type of a value: values of the same type share it. It is nil when nothing is known.
func (d *decoder) sharedType(w uint8, name string) *Type {
	outer := d.enter(w, name)
	defer d.leave(outer)
	raw := d.message()
	if raw != nil {
		if k := d.typeOf.find(raw); k >= 0 {
			d.skip(int64(len(raw)))
			return d.typeOf.of[k]
		}
	}
	unknown := d.unknown
	t := d.typ()
	if t.Kind == NoType {
		return nil
	}
	if raw != nil && d.err == nil && d.unknown == unknown {
		d.typeOf.add(raw, &t)
	}
	return &t
}

// typ reads a TypeProto. Of its alternatives the last one counts.
func (d *decoder) typ() Type {
	var t Type
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			t = d.tensorType(w, "TypeProto.tensor_type", TensorType)
		case 4:
			t = Type{Kind: SequenceType, Of: d.elemType(w, "TypeProto.sequence_type", nil)}
		case 5:
			t = Type{Kind: MapType}
			t.Of = d.elemType(w, "TypeProto.map_type", &t.Elem)
		case 6: // denotation
			d.skip(d.length(w, "TypeProto.denotation"))
		case 7:
			d.skip(d.length(w, "TypeProto.opaque_type"))
			t = Type{Kind: OpaqueType}
		case 8:
			t = d.tensorType(w, "TypeProto.sparse_tensor_type", SparseTensorType)
		case 9:
			t = Type{Kind: OptionalType, Of: d.elemType(w, "TypeProto.optional_type", nil)}
		default:
			d.skipUnknown(w)
		}
	}
	return t
}

// elemType reads a TypeProto.Sequence, Optional or Map: only the latter has a key.
func (d *decoder) elemType(w uint8, name string, key *DType) *Type {
	of := &Type{}
	outer := d.enter(w, name)
	for d.more() {
		f, w := d.tag()
		switch {
		case f == 1 && key == nil, f == 2 && key != nil:
			if of.Kind != NoType {
				d.fail(d.tagAt, "%s has a second element type", name)
			}
			*of = in(d, w, name, d.typ)
		case f == 1:
			*key = d.elem(w, name)
		default:
			d.skipUnknown(w)
		}
	}
	d.leave(outer)
	return of
}

// elem reads the element type of a declared type, which may be undefined.
func (d *decoder) elem(w uint8, name string) DType {
	v := d.uint(w, name)
	if d.err == nil && v >= uint64(numDTypes) {
		d.fail(d.tagAt, "%s: element type %d, which ONNX does not define", name, v)
		return Undefined
	}
	return DType(v)
}

// tensorType reads a TypeProto.Tensor or SparseTensor.
func (d *decoder) tensorType(w uint8, name string, kind Kind) Type {
	t := Type{Kind: kind}
	outer := d.enter(w, name)
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			t.Elem = d.elem(w, name)
		case 2:
			if t.HasRank {
				d.fail(d.tagAt, "%s has a second shape", name)
			}
			t.HasRank = true
			t.Dims = d.shape(w)
		default:
			d.skipUnknown(w)
		}
	}
	d.leave(outer)
	return t
}

// shape reads a TensorShapeProto.
func (d *decoder) shape(w uint8) []Dim {
	d.dimBuf = d.dimBuf[:0]
	outer := d.enter(w, "TypeProto.Tensor.shape")
	for d.more() {
		f, w := d.tag()
		if f != 1 {
			d.skipUnknown(w)
			continue
		}
		var dim Dim
		inner := d.enter(w, "TensorShapeProto.dim")
		for d.more() {
			f, w := d.tag()
			switch f {
			case 1:
				dim = Dim{Known: true, Size: d.int(w, "Dimension.dim_value")}
			case 2:
				dim = Dim{Param: d.word(w, "Dimension.dim_param")}
			case 3: // denotation
				d.skip(d.length(w, "Dimension.denotation"))
			default:
				d.skipUnknown(w)
			}
		}
		d.leave(inner)
		d.dimBuf = append(d.dimBuf, dim)
		if len(d.dimBuf) > d.lim.Rank {
			d.fail(d.tagAt, "a shape of more than %d dimensions, which is the limit", d.lim.Rank)
		}
	}
	d.leave(outer)
	return d.dims.copy(d.dimBuf)
}
