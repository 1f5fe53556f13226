package onnxtest

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/memestimate/memestimate/onnxload"
)

// Bytes returns the file.
func (m Model) Bytes() []byte {
	m.IR = cmp.Or(m.IR, 10)
	if opset := cmp.Or(m.Opset, 21); opset > 0 {
		m.Opsets = append([]Import{{"", opset}}, m.Opsets...)
	}
	return append(fields(m), m.Extra...)
}

// Bytes returns the GraphProto.
func (g Graph) Bytes() []byte {
	g.Name = cmp.Or(g.Name, "g")
	return append(fields(g), g.Extra...)
}

// fields writes a struct's fields that have the number of one of the message's, in their order.
func fields(message any) (b []byte) {
	v := reflect.ValueOf(message)
	for i := range v.NumField() {
		if tag, ok := v.Type().Field(i).Tag.Lookup("field"); ok {
			number, err := strconv.Atoi(tag)
			if err != nil {
				panic(err)
			}
			if x := v.Field(i); x.Kind() == reflect.Slice || x.Kind() == reflect.Struct || !x.IsZero() {
				b = appendField(b, number, x)
			}
		}
	}
	return b
}

// appendField writes a field, once for each element of a list.
func appendField(b []byte, number int, v reflect.Value) []byte {
	switch x := v.Interface().(type) {
	case onnxload.Entry:
		return Bytes(b, number, Str(Str(nil, 1, x.Key), 2, x.Value))
	case Graph:
		return Bytes(b, number, x.Bytes())
	case Node:
		return Bytes(b, number, append(fields(x), x.Extra...))
	case Attr:
		return Bytes(b, number, x.bytes())
	case Tensor:
		return Bytes(b, number, x.Bytes())
	case Type:
		if x.Kind == onnxload.NoType {
			return b
		}
		return Bytes(b, number, x.bytes())
	}
	switch {
	case v.CanInt():
		return Varint(b, number, uint64(v.Int()))
	case v.CanUint():
		return Varint(b, number, v.Uint())
	case v.CanFloat():
		return fixed32(b, number, math.Float32bits(float32(v.Float())))
	case v.Kind() == reflect.String:
		return Str(b, number, v.String())
	case v.Kind() == reflect.Struct:
		return Bytes(b, number, fields(v.Interface()))
	case v.Kind() != reflect.Slice:
		panic(fmt.Sprintf("onnxtest: field of type %v", v.Type()))
	}
	for i := range v.Len() {
		b = appendField(b, number, v.Index(i))
	}
	return b
}

// attrFields says which field of an AttributeProto has a value of each type.
var attrFields = map[reflect.Type]struct {
	number int
	is     onnxload.AttrType
}{
	reflect.TypeFor[int]():       {3, onnxload.AttrInt},
	reflect.TypeFor[int64]():     {3, onnxload.AttrInt},
	reflect.TypeFor[float32]():   {2, onnxload.AttrFloat},
	reflect.TypeFor[string]():    {4, onnxload.AttrString},
	reflect.TypeFor[[]int64]():   {8, onnxload.AttrInts},
	reflect.TypeFor[[]float32](): {7, onnxload.AttrFloats},
	reflect.TypeFor[[]string]():  {9, onnxload.AttrStrings},
	reflect.TypeFor[Tensor]():    {5, onnxload.AttrTensor},
	reflect.TypeFor[[]Tensor]():  {10, onnxload.AttrTensors},
	reflect.TypeFor[Sparse]():    {22, onnxload.AttrSparseTensor},
	reflect.TypeFor[Graph]():     {6, onnxload.AttrGraph},
	reflect.TypeFor[[]Graph]():   {11, onnxload.AttrGraphs},
	reflect.TypeFor[Type]():      {14, onnxload.AttrTypeProto},
	reflect.TypeFor[[]Type]():    {15, onnxload.AttrTypeProtos},
}

func (a Attr) bytes() []byte {
	b, v := Str(nil, 1, a.Name), a.Value
	if r, ok := v.(Ref); ok {
		return Varint(Str(b, 21, r.Name), 20, uint64(r.Type))
	}
	u, untyped := v.(Untyped)
	if untyped {
		v = u.Value
	}
	f, ok := attrFields[reflect.TypeOf(v)]
	if !ok {
		panic(fmt.Sprintf("onnxtest: attribute of type %T", v))
	}
	b = appendField(b, f.number, reflect.ValueOf(v))
	if untyped {
		return b
	}
	return Varint(b, 20, uint64(f.is))
}

// Bytes returns the TensorProto.
func (t Tensor) Bytes() []byte {
	b := fields(t)
	if t.Typed != nil {
		b = t.typed(b)
	}
	if t.Raw != nil || t.HasRaw {
		b = Bytes(b, 9, t.Raw)
	}
	for i := 0; i+1 < len(t.External); i += 2 {
		b = Bytes(b, 13, Str(Str(nil, 1, t.External[i]), 2, t.External[i+1]))
	}
	if t.External != nil {
		b = Varint(b, 14, 1)
	}
	return append(b, t.Extra...)
}

// typedFields says which field of a TensorProto has elements of each type, and how they are packed.
var typedFields = map[reflect.Type]struct{ number, wire int }{
	reflect.TypeFor[[]float32](): {4, 5},
	reflect.TypeFor[[]float64](): {10, 1},
	reflect.TypeFor[[]int32]():   {5, 0},
	reflect.TypeFor[[]int64]():   {7, 0},
	reflect.TypeFor[[]uint64]():  {11, 0},
}

func (t Tensor) typed(b []byte) []byte {
	if s, ok := t.Typed.([]string); ok {
		return appendField(b, 6, reflect.ValueOf(s))
	}
	f, ok := typedFields[reflect.TypeOf(t.Typed)]
	if !ok {
		panic(fmt.Sprintf("onnxtest: typed data of %T", t.Typed))
	}
	var packed []byte
	list := reflect.ValueOf(t.Typed)
	for i := range list.Len() {
		var element []byte
		switch x := list.Index(i); {
		case x.CanInt():
			element = binary.AppendUvarint(nil, uint64(x.Int()))
		case x.CanUint():
			element = binary.AppendUvarint(nil, x.Uint())
		default:
			element, _ = binary.Append(nil, binary.LittleEndian, x.Interface())
		}
		if t.Unpacked {
			b = append(Tag(b, f.number, f.wire), element...)
		}
		packed = append(packed, element...)
	}
	if t.Unpacked {
		return b
	}
	return Bytes(b, f.number, packed)
}

func (t Type) bytes() []byte {
	var elem []byte
	if t.Of != nil {
		elem = t.Of.bytes()
	}
	switch t.Kind {
	case onnxload.TensorType, onnxload.SparseTensorType:
		b := Varint(nil, 1, uint64(t.Elem))
		if !t.NoRank {
			b = Bytes(b, 2, t.shape())
		}
		if t.Kind == onnxload.SparseTensorType {
			return Bytes(nil, 8, b)
		}
		return Bytes(nil, 1, b)
	case onnxload.SequenceType:
		return Bytes(nil, 4, Bytes(nil, 1, elem))
	case onnxload.OptionalType:
		return Bytes(nil, 9, Bytes(nil, 1, elem))
	case onnxload.MapType:
		return Bytes(nil, 5, Bytes(Varint(nil, 1, uint64(t.Elem)), 2, elem))
	case onnxload.OpaqueType:
		return Bytes(nil, 7, Str(nil, 2, "opaque"))
	}
	return nil
}

func (t Type) shape() []byte {
	var b []byte
	for _, d := range t.Dims {
		var dim []byte
		switch d := d.(type) {
		case int:
			dim = Varint(nil, 1, uint64(d))
		case int64:
			dim = Varint(nil, 1, uint64(d))
		case string:
			dim = Str(nil, 2, d)
		case nil:
		default:
			panic(fmt.Sprintf("onnxtest: dimension of type %T", d))
		}
		b = Bytes(b, 1, dim)
	}
	return b
}
