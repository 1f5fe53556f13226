// Package onnxtest writes ONNX files for tests.
//
// A fixture is a literal:
//
//	b := onnxtest.Model{Graph: onnxtest.Graph{
//		In:    []onnxtest.Value{onnxtest.Float("x", "batch", 3)},
//		Nodes: []onnxtest.Node{onnxtest.Op("Relu", "x", "y")},
//		Out:   []onnxtest.Value{onnxtest.Float("y", "batch", 3)},
//	}}.Bytes()
//
// Nothing is checked, so that broken models can be written too. Field numbers
// are those of onnx.proto, IR version 14.
package onnxtest

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Model is a ModelProto.
type Model struct {
	IR        int64    // 10 when zero
	Opset     int64    // of ai.onnx: 21 when zero; none is written when negative
	Opsets    []Import // other domains
	Producer  string
	Meta      []onnxload.Entry
	Graph     Graph
	Functions []Function
	Extra     []byte // fields appended as they are
}

// An Import is an OperatorSetIdProto.
type Import struct {
	Domain  string
	Version int64
}

// A Graph is a GraphProto.
type Graph struct {
	Name   string // "g" when empty
	Nodes  []Node
	Inits  []Tensor
	Sparse []Sparse
	In     []Value
	Out    []Value
	Infos  []Value
	Extra  []byte
}

// A Node is a NodeProto.
type Node struct {
	Op, Domain, Name, Overload string
	In, Out                    []string
	Attrs                      []Attr
	Meta                       []onnxload.Entry
	Extra                      []byte
}

// Op returns a node; in and out are names separated by spaces, "-" for an
// omitted one.
func Op(op, in, out string, attrs ...Attr) Node {
	return Node{Op: op, In: names(in), Out: names(out), Attrs: attrs}
}

// Named returns n with a name.
func (n Node) Named(name string) Node {
	n.Name = name
	return n
}

// Of returns n with a domain.
func (n Node) Of(domain string) Node {
	n.Domain = domain
	return n
}

func names(s string) []string {
	list := strings.Fields(s)
	for i, n := range list {
		if n == "-" {
			list[i] = ""
		}
	}
	return list
}

// An Attr is an AttributeProto. Its value is an int, int64, float32, string,
// []int64, []float32, []string, Tensor, []Tensor, Sparse, Graph, []Graph, Type,
// []Type, Ref or Untyped.
type Attr struct {
	Name  string
	Value any
}

// A Ref is the value of a function node's attribute that stands for the
// function's attribute of that name.
type Ref struct {
	Name string
	Type onnxload.AttrType
}

// RefTo returns a Ref.
func RefTo(name string, t onnxload.AttrType) Ref { return Ref{name, t} }

// Untyped writes a value without the type field, as IR version 1 did.
type Untyped struct{ Value any }

// A is short for an Attr.
func A(name string, value any) Attr { return Attr{name, value} }

// A Tensor is a TensorProto. Raw and Typed may both be nil: no data.
type Tensor struct {
	Name     string
	DType    onnxload.DType
	Dims     []int64
	Raw      []byte
	HasRaw   bool     // write raw_data although it is empty
	Typed    any      // []float32, []float64, []int32, []int64, []uint64 or []string, in the field that goes with it
	Unpacked bool     // Typed has a tag for each element
	External []string // external_data: key, value, key, value ...
	Extra    []byte
}

// Zeros returns a tensor with all its data, of zeros, as raw_data.
func Zeros(name string, t onnxload.DType, dims ...int64) Tensor {
	n := int64(1)
	for _, d := range dims {
		n *= d
	}
	return Tensor{Name: name, DType: t, Dims: dims, Raw: make([]byte, (n*t.Bits()+7)/8)}
}

// Bare returns a tensor without data, as in a file stripped of its weights.
func Bare(name string, t onnxload.DType, dims ...int64) Tensor {
	return Tensor{Name: name, DType: t, Dims: dims}
}

// Int64s returns a one-dimensional tensor of int64, as raw_data.
func Int64s(name string, v ...int64) Tensor {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(x))
	}
	return Tensor{Name: name, DType: onnxload.Int64, Dims: []int64{int64(len(v))}, Raw: raw, HasRaw: true}
}

// Float32s returns a one-dimensional tensor of float32, as raw_data.
func Float32s(name string, v ...float32) Tensor {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return Tensor{Name: name, DType: onnxload.Float32, Dims: []int64{int64(len(v))}, Raw: raw, HasRaw: true}
}

// Scalar returns t without dimensions.
func (t Tensor) Scalar() Tensor {
	t.Dims = nil
	return t
}

// A Sparse is a SparseTensorProto.
type Sparse struct {
	Values, Indices Tensor
	Dims            []int64
}

// SparseOf returns a Sparse.
func SparseOf(values, indices Tensor, dims ...int64) Sparse { return Sparse{values, indices, dims} }

// A Value is a ValueInfoProto. One with the zero Type is a name only.
type Value struct {
	Name string
	Type Type
}

// A Type is a TypeProto; the zero Type is not written.
type Type struct {
	Kind onnxload.Kind
	Elem onnxload.DType
	Dims []any // int, int64, string (a symbol) or nil (unknown); nil slice with NoRank
	Of   *Type
	// NoRank leaves out the shape.
	NoRank bool
}

// TensorOf returns a tensor type.
func TensorOf(elem onnxload.DType, dims ...any) Type {
	return Type{Kind: onnxload.TensorType, Elem: elem, Dims: dims}
}

// Val returns a tensor value.
func Val(name string, elem onnxload.DType, dims ...any) Value {
	return Value{name, TensorOf(elem, dims...)}
}

// Typed returns a value of any type.
func Typed(name string, t Type) Value { return Value{name, t} }

// Float returns a float32 value.
func Float(name string, dims ...any) Value { return Val(name, onnxload.Float32, dims...) }

// A Function is a FunctionProto.
type Function struct {
	Domain, Name, Overload string
	In, Out                []string
	Attrs                  []string // names without default
	Defaults               []Attr
	Nodes                  []Node
	Infos                  []Value
	Opsets                 []Import
}

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

// Domain returns an Import.
func Domain(name string, version int64) Import { return Import{name, version} }

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
	return append(b, g.Extra...)
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
	b := Str(nil, 1, v.Name)
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
