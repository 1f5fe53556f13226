package onnxload

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
)

// A payload says where a tensor's elements are: in the message from off to end of the file,
// or, when that is small or cannot be read again, from off to end of source.kept, which has the
// fields of the message that carry elements.
type payload struct {
	field    uint32 // the field that carries the elements (fieldRaw ...); 0: there is none
	dropped  bool   // it is not kept, or not all of it
	size     int64  // bytes of the elements in the file
	off, end int64
}

// The fields of TensorProto that carry elements.
const (
	fieldFloat  = 4
	fieldInt32  = 5
	fieldString = 6
	fieldInt64  = 7
	fieldRaw    = 9
	fieldDouble = 10
	fieldUint64 = 11
)

var fieldNames = map[uint32]string{
	fieldFloat: "float_data", fieldInt32: "int32_data", fieldString: "string_data", fieldInt64: "int64_data",
	fieldRaw: "raw_data", fieldDouble: "double_data", fieldUint64: "uint64_data",
}

// typedField returns the field other than raw_data that carries elements of
// a type (comments of TensorProto in onnx.proto).
func typedField(t DType) uint32 {
	switch t {
	case Float32, Complex64:
		return fieldFloat
	case Float64, Complex128:
		return fieldDouble
	case Int64:
		return fieldInt64
	case Uint32, Uint64:
		return fieldUint64
	case String:
		return fieldString
	}
	return fieldInt32
}

// tensor reads a TensorProto. Payloads that are not tiny are skipped. The name of an initializer is that of a value,
// whose number is returned.
func (d *decoder) tensor(init bool) (t *Tensor, name ValueID) {
	t, name = d.tensors.one(), NoValue
	at := d.off()
	t.payload.off, t.payload.end = at, d.end
	dataType := uint64(0)
	elements := int64(0) // of a typed field whose elements have a fixed size
	external := false
	segment := false
	keep := d.keepBuf[:0]
	int0 := len(d.intBuf)
	for d.more() {
		f, w := d.tag()
		switch f {
		case 1:
			d.dimList(int0, w, "TensorProto.dims")
		case 2:
			dataType = d.uint(w, "TensorProto.data_type")
		case 3:
			d.skip(d.length(w, "TensorProto.segment"))
			segment = true
		case fieldFloat, fieldInt32, fieldString, fieldInt64, fieldRaw, fieldDouble, fieldUint64:
			keep = d.payload(t, f, w, keep, &elements)
		case 8:
			if init {
				name = d.listedID(w, "TensorProto.name")
				t.Name = d.nameOf(int32(name))
			} else {
				t.Name = d.str(w, "TensorProto.name")
			}
		case 12, 16: // doc_string, metadata_props
			d.skip(d.length(w, "TensorProto.doc_string"))
		case 13:
			external = true
			if t.External == nil {
				t.External = &External{Length: -1}
			}
			d.inside(w, "TensorProto.external_data", func() { d.externalEntry(t) })
		case 14:
			if d.uint(w, "TensorProto.data_location") == 1 {
				external = true
			}
		default:
			d.skipUnknown(w)
		}
	}
	if d.err != nil {
		return t, name
	}
	t.Dims = d.ints.copy(d.intBuf[int0:])
	d.intBuf = d.intBuf[:int0]
	if dataType == 0 || dataType >= uint64(numDTypes) {
		d.fail(at, "tensor %q has data_type %d, which ONNX does not define", t.Name, dataType)
		return t, name
	}
	t.DType = DType(dataType)
	if err := d.checkTensor(t, elements); err != nil {
		d.refuse(&WireError{Offset: at, Msg: err.Error()})
		return t, name
	}
	if external {
		d.checkExternal(t)
	}
	if segment {
		d.odd.add("segments", "tensor %q is one segment of a larger one: its data is not read", t.Name)
		t.payload.field = 0
		return t, name
	}
	d.keepBuf = keep
	if !t.payload.dropped {
		kept := &d.m.data.kept
		t.payload.off = int64(len(*kept))
		if cap(*kept)-len(*kept) < len(keep) {
			*kept = slices.Grow(*kept, max(len(*kept), 1<<10))
		}
		*kept = append(*kept, keep...)
		t.payload.end = int64(len(*kept))
	}
	return t, name
}

// dimList appends dimensions, packed or not, to intBuf, whose first int0 elements
// are not of this tensor.
func (d *decoder) dimList(int0 int, w uint8, name string) {
	add := func() {
		if d.intBuf = append(d.intBuf, int64(d.varint())); len(d.intBuf)-int0 > d.lim.Rank {
			d.fail(d.tagAt, "a tensor of more than %d dimensions, which is the limit", d.lim.Rank)
		}
	}
	if w == wireVarint {
		add()
		return
	}
	outer := d.enter(w, name)
	for d.more() {
		add()
	}
	d.leave(outer)
}

// payload reads a field that carries elements. What is worth keeping is appended
// to keep, as a field of a message.
func (d *decoder) payload(t *Tensor, f uint32, w uint8, keep []byte, elements *int64) []byte {
	p := &t.payload
	n := int64(0)
	v := uint64(0)
	switch {
	case w == wireLen:
		n = d.length(w, fieldNames[f])
		if n == 0 && f != fieldString {
			return keep // an empty list is no payload: stripped files have these
		}
	case f == fieldFloat && w == wireI32:
		n = 4
	case f == fieldDouble && w == wireI64:
		n = 8
	case (f == fieldInt32 || f == fieldInt64 || f == fieldUint64) && w == wireVarint:
		v = d.varint()
	default:
		d.expect(w, wireLen, fieldNames[f])
	}
	if d.err != nil {
		return keep
	}
	if p.field != 0 && p.field != f {
		d.fail(d.tagAt, "tensor %q has both %s and %s", t.Name, fieldNames[p.field], fieldNames[f])
		return keep
	}
	p.field = f
	switch f {
	case fieldRaw: // the last one counts
		p.size, p.dropped, keep = n, false, keep[:0]
	case fieldString:
		p.size += n + 1 // an empty string is an element too
		*elements++
	case fieldFloat, fieldDouble:
		width := int64(4)
		if f == fieldDouble {
			width = 8
		}
		if n%width != 0 {
			d.fail(d.tagAt, "%s of %d bytes: not a whole number of elements", fieldNames[f], n)
			return keep
		}
		p.size += n
		*elements += n / width
	default:
		p.size += max(n, 1)
	}
	if p.dropped || int64(len(keep))+max(n, binary.MaxVarintLen64) > d.keepUpTo() {
		p.dropped = true
		d.skip(n)
		return keep
	}
	keep = binary.AppendUvarint(keep, uint64(f)<<3|uint64(w))
	switch w {
	case wireVarint:
		return binary.AppendUvarint(keep, v)
	case wireLen:
		keep = binary.AppendUvarint(keep, uint64(n))
	}
	return append(keep, d.bytes(n)...)
}

// keepUpTo returns how large a payload may be to be kept in memory.
func (d *decoder) keepUpTo() int64 {
	if d.stream == nil {
		return keepInline
	}
	return min(d.lim.Const, maxKept-int64(len(d.m.data.kept)))
}

func (d *decoder) checkTensor(t *Tensor, elements int64) error {
	n, err := t.Elements()
	if err != nil {
		return err
	}
	want, err := t.Bytes()
	if err != nil {
		return err
	}
	p := &t.payload
	if p.size == 0 {
		return nil // stripped, external, or without elements
	}
	switch p.field {
	case fieldRaw:
		if t.DType == String {
			return fmt.Errorf("tensor %q holds strings as raw_data", t.Name)
		}
		if p.size != want {
			return fmt.Errorf("tensor %q of %s %s has %d bytes of raw_data, want %d", t.Name, t.DType, dimsString(t.Dims),
				p.size, want)
		}
	default:
		if f := typedField(t.DType); f != p.field {
			return fmt.Errorf("tensor %q of %s has its elements in %s, want %s or raw_data", t.Name, t.DType,
				fieldNames[p.field], fieldNames[f])
		}
		if t.DType == Complex64 || t.DType == Complex128 {
			elements /= 2
		}
		if (p.field == fieldFloat || p.field == fieldDouble || p.field == fieldString) && elements != n {
			return fmt.Errorf("tensor %q of %s %s has %d elements in %s, want %d", t.Name, t.DType, dimsString(t.Dims),
				elements, fieldNames[p.field], n)
		}
		if p.field != fieldFloat && p.field != fieldDouble && p.field != fieldString && (p.size > 10*n && n < 1<<59) {
			return fmt.Errorf("tensor %q of %s %s has %d bytes of %s, more than its elements can take", t.Name, t.DType,
				dimsString(t.Dims), p.size, fieldNames[p.field])
		}
	}
	return nil
}

func dimsString(dims []int64) string {
	b := []byte{'['}
	for i, d := range dims {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, d, 10)
	}
	return string(append(b, ']'))
}

// externalEntry reads one entry of external_data.
func (d *decoder) externalEntry(t *Tensor) {
	e := d.entry()
	if d.err != nil {
		return
	}
	number := func() int64 {
		n, err := strconv.ParseInt(e.Value, 10, 64)
		if err != nil || n < 0 {
			d.odd.add("external data", "tensor %q: %s of its external data is %q, want a number from 0 on", t.Name, e.Key,
				e.Value)
			return invalidSpan
		}
		return n
	}
	switch e.Key {
	case "location":
		t.External.Location = e.Value
	case "offset":
		t.External.Offset = number()
	case "length":
		t.External.Length = number()
	}
}

// invalidSpan marks an offset or length that the file gives as something else
// than a number from 0 on.
const invalidSpan = -1 << 63

// checkExternal notes what is wrong with a tensor's external data. That is no
// reason to refuse the model: its weights are not needed.
func (d *decoder) checkExternal(t *Tensor) {
	if t.External == nil {
		t.External = &External{Length: -1}
	}
	x := t.External
	d.keepBeside(t)
	if want, err := t.Bytes(); err == nil && x.Length >= 0 && x.Length != want && t.DType != String {
		d.odd.add("external data", "tensor %q: external data of %d bytes, want %d of %s %s", t.Name, x.Length, want, t.DType,
			dimsString(t.Dims))
	}
	if d.location == x.Location && x.Location != "" { // as a rule all tensors name one file
		return
	}
	d.location = x.Location
	if err := checkLocation(x.Location); err != nil {
		d.odd.add("external data", "tensor %q: %v", t.Name, err)
	}
}
