package onnxload

import (
	"math"
	"slices"
)

// sharedAttr reads an AttributeProto, which need not be decoded again when there was one like it. k is its number
// in the memo, or -1: what has tensors or graphs of its own is not shared.
func (d *decoder) sharedAttr() (a Attr, k int32) {
	raw := d.message()
	if raw != nil {
		if k = d.attrOf.find(raw); k >= 0 {
			d.skip(int64(len(raw)))
			return d.attrOf.of[k], k
		}
	}
	unknown := d.unknown
	a = d.attr()
	if raw == nil || d.err != nil || d.unknown != unknown || a.Tensors != nil || a.Types != nil || a.Type == AttrGraph ||
		a.Type == AttrGraphs {
		return a, -1
	}
	return a, d.attrOf.add(raw, a)
}

// An attrField is a field of AttributeProto that holds a value: of which type of attributes, and its name.
type attrField struct {
	of   AttrType
	name string
}

// attrFields are those of AttributeProto by their numbers.
var attrFields = [...]attrField{
	2: {AttrFloat, "AttributeProto.f"}, 3: {AttrInt, "AttributeProto.i"}, 4: {AttrString, "AttributeProto.s"},
	5: {AttrTensor, "AttributeProto.t"}, 6: {AttrGraph, "AttributeProto.g"}, 7: {AttrFloats, "AttributeProto.floats"},
	8: {AttrInts, "AttributeProto.ints"}, 9: {AttrStrings, "AttributeProto.strings"},
	10: {AttrTensors, "AttributeProto.tensors"}, 11: {AttrGraphs, "AttributeProto.graphs"},
	14: {AttrTypeProto, "AttributeProto.tp"}, 15: {AttrTypeProtos, "AttributeProto.type_protos"},
	22: {AttrSparseTensor, "AttributeProto.sparse_tensor"}, 23: {AttrSparseTensors, "AttributeProto.sparse_tensors"},
}

// bit is that of the field among those seen; other fields than attrFields have none.
func (f attrField) bit() uint32 { return 1 << f.of &^ 1 }

// attr reads an AttributeProto.
func (d *decoder) attr() Attr {
	var a Attr
	var ref string
	at := d.off()
	isRef := false
	has := uint32(0) // value fields seen, a bit for each AttrType
	int0 := len(d.intBuf)
	var subs []int64
	for d.more() {
		f, w := d.tag()
		var field attrField
		if int(f) < len(attrFields) {
			field = attrFields[f]
		}
		again := has&field.bit() != 0
		has |= field.bit()
		switch f {
		case 1:
			a.Name = d.word(w, "AttributeProto.name")
		case 2:
			a.Float = d.float(w, field.name)
		case 3:
			a.Int = d.int(w, field.name)
		case 4:
			n := d.length(w, field.name)
			if n > d.lim.String {
				d.odd.add("long strings", "attribute %q: string of %d bytes not kept", a.Name, n)
				d.skip(n)
			} else {
				a.Str = d.words.str(d.bytes(n))
			}
		case 5, 10, 22, 23:
			read := d.tensor
			if f >= 22 {
				read = d.sparse
			}
			outer := d.enter(w, field.name)
			t, _ := read(false)
			d.leave(outer)
			if f == 5 && again {
				d.fail(d.tagAt, "attribute %q has a second tensor", a.Name)
			}
			a.Tensors = append(a.Tensors, t)
		case 6, 11:
			if f == 6 && again {
				d.fail(d.tagAt, "attribute %q has a second graph", a.Name)
			}
			d.subs = append(d.subs, in(d, w, field.name, d.graph))
			subs = append(subs, int64(len(d.subs)-1))
		case 7:
			a.Floats = d.floatList(a.Floats, w, field.name)
		case 8:
			d.intBuf = d.intList(d.intBuf, w, field.name)
		case 9:
			a.Strs = append(a.Strs, d.word(w, field.name))
		case 13: // doc_string
			d.skip(d.length(w, "AttributeProto.doc_string"))
		case 14, 15:
			a.Types = append(a.Types, in(d, w, field.name, d.typ))
		case 20:
			v := d.uint(w, "AttributeProto.type")
			if d.err == nil && v > uint64(AttrTypeProtos) {
				d.fail(d.tagAt, "attribute type %d, which ONNX does not define", v)
			}
			a.Type = AttrType(v)
		case 21:
			ref = d.word(w, "AttributeProto.ref_attr_name")
			isRef = ref != ""
		default:
			d.skipUnknown(w)
		}
	}
	if d.err != nil {
		return a
	}
	a.Ints = d.ints.copy(d.intBuf[int0:])
	d.intBuf = d.intBuf[:int0]
	if a.Name == "" {
		d.fail(at, "an attribute without name")
		return a
	}
	if isRef {
		if has != 0 {
			d.fail(at, "attribute %q has a value and is a reference to %q as well", a.Name, ref)
		}
		return Attr{Name: a.Name, Type: a.Type | refBit, Str: ref}
	}
	a.Type = d.attrType(at, &a, has)
	if a.Type == AttrGraph || a.Type == AttrGraphs {
		a.Ints = subs // until resolve puts the graphs in their place
	}
	return a
}

// attrType checks the declared type against the fields that are there. Files of
// IR version 1 declare none: the one field there decides. An empty list has no
// field, and a zero may have none.
func (d *decoder) attrType(at int64, a *Attr, has uint32) AttrType {
	declared := a.Type
	if declared != AttrUndefined {
		if has == 0 {
			switch declared {
			case AttrTensor, AttrGraph, AttrSparseTensor, AttrTypeProto:
				d.fail(at, "attribute %q is declared %v, but holds nothing", a.Name, declared)
			}
			return declared
		}
		if has != 1<<declared {
			d.fail(at, "attribute %q is declared %v, but holds %v", a.Name, declared, firstType(has&^(1<<declared)))
		}
		return declared
	}
	if has == 0 {
		return AttrUndefined
	}
	t := firstType(has)
	if has != 1<<t {
		d.fail(at, "attribute %q holds both %v and %v, and declares no type", a.Name, t, firstType(has&^(1<<t)))
	}
	return t
}

func firstType(has uint32) AttrType {
	for t := AttrFloat; t <= AttrTypeProtos; t++ {
		if has&(1<<t) != 0 {
			return t
		}
	}
	return AttrUndefined
}

var attrTypeNames = [...]string{
	"UNDEFINED", "FLOAT", "INT", "STRING", "TENSOR", "GRAPH", "FLOATS", "INTS", "STRINGS", "TENSORS",
	"GRAPHS", "SPARSE_TENSOR", "SPARSE_TENSORS", "TYPE_PROTO", "TYPE_PROTOS",
}

// String returns ONNX's name of the type: "INTS".
func (t AttrType) String() string {
	if int(t) < len(attrTypeNames) {
		return attrTypeNames[t]
	}
	return "?"
}

// intList appends the integers of a repeated field, packed or not.
func (c *cursor) intList(list []int64, w uint8, name string) []int64 {
	if w == wireVarint {
		return append(list, int64(c.varint()))
	}
	outer := c.enter(w, name)
	for c.more() {
		list = append(list, int64(c.varint()))
	}
	c.leave(outer)
	return list
}

// floatList appends the floats of a repeated field, packed or not.
func (c *cursor) floatList(list []float32, w uint8, name string) []float32 {
	if w == wireI32 {
		return append(list, math.Float32frombits(c.fixed32()))
	}
	outer := c.enter(w, name)
	if n := c.end - c.off(); c.err == nil && n <= windowSize {
		list = slices.Grow(list, int(n/4))
	}
	for c.more() {
		list = append(list, math.Float32frombits(c.fixed32()))
	}
	c.leave(outer)
	return list
}
