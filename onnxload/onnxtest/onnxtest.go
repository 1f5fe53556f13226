// Package onnxtest writes ONNX files: those of tests, and models that package onnxgo was given in another form.
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
	"math"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Model is a ModelProto.
type Model struct {
	Opset     int64            // of ai.onnx: 21 when zero; none is written when negative
	IR        int64            `field:"1"` // 10 when zero
	Producer  string           `field:"2"`
	Graph     Graph            `field:"7"`
	Opsets    []Import         `field:"8"` // other domains
	Meta      []onnxload.Entry `field:"14"`
	Functions []Function       `field:"25"`
	Extra     []byte           // fields appended as they are
}

// An Import is an OperatorSetIdProto.
type Import struct {
	Domain  string `field:"1"`
	Version int64  `field:"2"`
}

// A Graph is a GraphProto.
type Graph struct {
	Nodes  []Node           `field:"1"`
	Name   string           `field:"2"` // "g" when empty
	Inits  []Tensor         `field:"5"`
	Sparse []Sparse         `field:"15"`
	In     []Value          `field:"11"`
	Out    []Value          `field:"12"`
	Infos  []Value          `field:"13"`
	Meta   []onnxload.Entry `field:"16"`
	Extra  []byte
}

// A Node is a NodeProto.
type Node struct {
	In       []string         `field:"1"`
	Out      []string         `field:"2"`
	Name     string           `field:"3"`
	Op       string           `field:"4"`
	Attrs    []Attr           `field:"5"`
	Domain   string           `field:"7"`
	Overload string           `field:"8"`
	Meta     []onnxload.Entry `field:"9"`
	Extra    []byte
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
	Dims     []int64        `field:"1"`
	DType    onnxload.DType `field:"2"`
	Name     string         `field:"8"`
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
	Values  Tensor  `field:"1"`
	Indices Tensor  `field:"2"`
	Dims    []int64 `field:"3"`
}

// SparseOf returns a Sparse.
func SparseOf(values, indices Tensor, dims ...int64) Sparse { return Sparse{values, indices, dims} }

// A Value is a ValueInfoProto. One with the zero Type is a name only.
type Value struct {
	Name string           `field:"1"`
	Type Type             `field:"2"`
	Meta []onnxload.Entry `field:"4"`
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
	return Value{Name: name, Type: TensorOf(elem, dims...)}
}

// Typed returns a value of any type.
func Typed(name string, t Type) Value { return Value{Name: name, Type: t} }

// Float returns a float32 value.
func Float(name string, dims ...any) Value { return Val(name, onnxload.Float32, dims...) }

// A Function is a FunctionProto.
type Function struct {
	Name     string   `field:"1"`
	In       []string `field:"4"`
	Out      []string `field:"5"`
	Attrs    []string `field:"6"` // names without default
	Nodes    []Node   `field:"7"`
	Opsets   []Import `field:"9"`
	Domain   string   `field:"10"`
	Defaults []Attr   `field:"11"`
	Infos    []Value  `field:"12"`
	Overload string   `field:"13"`
}

// Domain returns an Import.
func Domain(name string, version int64) Import { return Import{name, version} }
