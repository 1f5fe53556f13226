package onnxtest

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

// Bytes returns the file.
func (m Model) Bytes() []byte {
	ir, opset := m.IR, m.Opset
	if ir == 0 {
		ir = 10
	}
	if opset == 0 {
		opset = 21
	}
	b := Varint(nil, 1, uint64(ir))
	if m.Producer != "" {
		b = Str(b, 2, m.Producer)
	}
	b = Bytes(b, 7, m.Graph.Bytes())
	if opset > 0 {
		b = Bytes(b, 8, Import{"", opset}.bytes())
	}
	for _, o := range m.Opsets {
		b = Bytes(b, 8, o.bytes())
	}
	b = entries(b, 14, m.Meta)
	for _, f := range m.Functions {
		b = Bytes(b, 25, f.bytes())
	}
	return append(b, m.Extra...)
}

func (o Import) bytes() []byte { return Varint(Str(nil, 1, o.Domain), 2, uint64(o.Version)) }

func entries(b []byte, field int, list []onnxload.Entry) []byte {
	for _, e := range list {
		b = Bytes(b, field, Str(Str(nil, 1, e.Key), 2, e.Value))
	}
	return b
}

// Bytes returns the GraphProto.
func (g Graph) Bytes() []byte {
	var b []byte
	for _, n := range g.Nodes {
		b = Bytes(b, 1, n.bytes())
	}
	name := g.Name
	if name == "" {
		name = "g"
	}
	b = Str(b, 2, name)
	for _, t := range g.Inits {
		b = Bytes(b, 5, t.Bytes())
	}
	for _, s := range g.Sparse {
		b = Bytes(b, 15, s.bytes())
	}
	for _, v := range g.In {
		b = Bytes(b, 11, v.bytes())
	}
	for _, v := range g.Out {
		b = Bytes(b, 12, v.bytes())
	}
	for _, v := range g.Infos {
		b = Bytes(b, 13, v.bytes())
	}
	return append(entries(b, 16, g.Meta), g.Extra...)
}

func (n Node) bytes() []byte {
	var b []byte
	for _, s := range n.In {
		b = Str(b, 1, s)
	}
	for _, s := range n.Out {
		b = Str(b, 2, s)
	}
	if n.Name != "" {
		b = Str(b, 3, n.Name)
	}
	b = Str(b, 4, n.Op)
	for _, a := range n.Attrs {
		b = Bytes(b, 5, a.bytes())
	}
	if n.Domain != "" {
		b = Str(b, 7, n.Domain)
	}
	if n.Overload != "" {
		b = Str(b, 8, n.Overload)
	}
	return append(entries(b, 9, n.Meta), n.Extra...)
}

func (a Attr) bytes() []byte {
	b := Str(nil, 1, a.Name)
	v := a.Value
	u, untyped := v.(Untyped)
	if untyped {
		v = u.Value
	}
	var t onnxload.AttrType
	switch v := v.(type) {
	case int:
		b, t = Varint(b, 3, uint64(v)), onnxload.AttrInt
	case int64:
		b, t = Varint(b, 3, uint64(v)), onnxload.AttrInt
	case float32:
		b, t = fixed32(b, 2, math.Float32bits(v)), onnxload.AttrFloat
	case string:
		b, t = Str(b, 4, v), onnxload.AttrString
	case []int64:
		for _, x := range v {
			b = Varint(b, 8, uint64(x))
		}
		t = onnxload.AttrInts
	case []float32:
		for _, x := range v {
			b = fixed32(b, 7, math.Float32bits(x))
		}
		t = onnxload.AttrFloats
	case []string:
		for _, x := range v {
			b = Str(b, 9, x)
		}
		t = onnxload.AttrStrings
	case Tensor:
		b, t = Bytes(b, 5, v.Bytes()), onnxload.AttrTensor
	case []Tensor:
		for _, x := range v {
			b = Bytes(b, 10, x.Bytes())
		}
		t = onnxload.AttrTensors
	case Sparse:
		b, t = Bytes(b, 22, v.bytes()), onnxload.AttrSparseTensor
	case Graph:
		b, t = Bytes(b, 6, v.Bytes()), onnxload.AttrGraph
	case []Graph:
		for _, x := range v {
			b = Bytes(b, 11, x.Bytes())
		}
		t = onnxload.AttrGraphs
	case Type:
		b, t = Bytes(b, 14, v.bytes()), onnxload.AttrTypeProto
	case []Type:
		for _, x := range v {
			b = Bytes(b, 15, x.bytes())
		}
		t = onnxload.AttrTypeProtos
	case Ref:
		b, t = Str(b, 21, v.Name), v.Type
	default:
		panic(fmt.Sprintf("onnxtest: attribute of type %T", v))
	}
	if untyped {
		return b
	}
	return Varint(b, 20, uint64(t))
}

// Bytes returns the TensorProto.
func (t Tensor) Bytes() []byte {
	var b []byte
	for _, d := range t.Dims {
		b = Varint(b, 1, uint64(d))
	}
	b = Varint(b, 2, uint64(t.DType))
	b = t.typed(b)
	if t.Name != "" {
		b = Str(b, 8, t.Name)
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

func (t Tensor) typed(b []byte) []byte {
	field, wire := 0, 0
	var list [][]byte
	switch v := t.Typed.(type) {
	case nil:
		return b
	case []float32:
		field, wire = 4, 5
		for _, x := range v {
			list = append(list, binary.LittleEndian.AppendUint32(nil, math.Float32bits(x)))
		}
	case []float64:
		field, wire = 10, 1
		for _, x := range v {
			list = append(list, binary.LittleEndian.AppendUint64(nil, math.Float64bits(x)))
		}
	case []int32:
		field = 5
		for _, x := range v {
			list = append(list, binary.AppendUvarint(nil, uint64(x)))
		}
	case []int64:
		field = 7
		for _, x := range v {
			list = append(list, binary.AppendUvarint(nil, uint64(x)))
		}
	case []uint64:
		field = 11
		for _, x := range v {
			list = append(list, binary.AppendUvarint(nil, x))
		}
	case []string:
		for _, x := range v {
			b = Str(b, 6, x)
		}
		return b
	default:
		panic(fmt.Sprintf("onnxtest: typed data of %T", v))
	}
	var packed []byte
	for _, x := range list {
		if t.Unpacked {
			b = append(Tag(b, field, wire), x...)
		}
		packed = append(packed, x...)
	}
	if t.Unpacked {
		return b
	}
	return Bytes(b, field, packed)
}

func (s Sparse) bytes() []byte {
	b := Bytes(nil, 1, s.Values.Bytes())
	b = Bytes(b, 2, s.Indices.Bytes())
	for _, d := range s.Dims {
		b = Varint(b, 3, uint64(d))
	}
	return b
}

func (v Value) bytes() []byte {
	b := entries(Str(nil, 1, v.Name), 4, v.Meta)
	if v.Type.Kind == onnxload.NoType {
		return b
	}
	return Bytes(b, 2, v.Type.bytes())
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

func (f Function) bytes() []byte {
	b := Str(nil, 1, f.Name)
	for _, s := range f.In {
		b = Str(b, 4, s)
	}
	for _, s := range f.Out {
		b = Str(b, 5, s)
	}
	for _, s := range f.Attrs {
		b = Str(b, 6, s)
	}
	for _, n := range f.Nodes {
		b = Bytes(b, 7, n.bytes())
	}
	for _, o := range f.Opsets {
		b = Bytes(b, 9, o.bytes())
	}
	if f.Domain != "" {
		b = Str(b, 10, f.Domain)
	}
	for _, a := range f.Defaults {
		b = Bytes(b, 11, a.bytes())
	}
	for _, v := range f.Infos {
		b = Bytes(b, 12, v.bytes())
	}
	if f.Overload != "" {
		b = Str(b, 13, f.Overload)
	}
	return b
}
