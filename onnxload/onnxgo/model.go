package onnxgo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
	onnx "github.com/owulveryck/onnx-go"
	"gonum.org/v1/gonum/graph"
	"gorgonia.org/tensor"
)

// Options say what onnx-go does not tell a backend.
type Options struct {
	Path  string // for onnxload.Model.Path and for errors
	Opset int64  // version of ai.onnx that the model imports; required

	// Types of tensors by name: of inputs, where symbolic dimensions are allowed, and of weights where the backend has
	// no tensors.
	Types map[string]onnxload.Type
}

// Model returns the recorded model. m is the onnx.Model that decoded into the backend. Values that nothing produces are
// its inputs where m says so, and weights otherwise. The model is written as an ONNX file first, so that onnxload
// checks it as it checks every other.
func (b *Backend) Model(m *onnx.Model, opts Options) (*onnxload.Model, error) {
	if opts.Opset <= 0 {
		return nil, errors.New("onnxgo: Options.Opset is not set, and onnx-go does not tell which operator " +
			"set the model imports")
	}
	g, err := b.encode(m, opts)
	if err != nil {
		return nil, fmt.Errorf("onnxgo: %w", err)
	}
	file := bytesField(nil, 2, "onnx-go")
	file = bytesField(varint(file, 1, 8), 7, g)
	file = bytesField(file, 8, varint(nil, 2, uint64(opts.Opset)))
	return onnxload.Read(bytes.NewReader(file), int64(len(file)), onnxload.Options{Path: opts.Path})
}

// encode writes the recorded graph as a GraphProto.
func (b *Backend) encode(m *onnx.Model, opts Options) ([]byte, error) {
	done := map[int64]bool{} // what an operation produces, and inputs that onnx-go invents
	for _, op := range b.ops {
		for _, n := range op.out {
			done[n.ID()] = true
		}
	}
	var g []byte
	for _, op := range b.ops {
		in := op.in
		if len(in) == 1 && !done[in[0].ID()] && b.invented(m, in[0]) {
			done[in[0].ID()] = true
			in = nil
		}
		var n []byte
		for _, x := range in {
			n = bytesField(n, 1, nameOf(x))
		}
		for _, x := range op.out {
			n = bytesField(n, 2, nameOf(x))
		}
		n = bytesField(n, 4, op.name)
		for _, name := range slices.Sorted(maps.Keys(op.attrs)) {
			a, err := encodeAttr(name, op.attrs[name])
			if err != nil {
				return nil, fmt.Errorf("operation %q: attribute %q: %w", op.name, name, err)
			}
			n = bytesField(n, 5, a)
		}
		g = bytesField(g, 1, n)
	}
	g = bytesField(g, 2, "onnx-go")
	named := map[string]bool{"": true} // onnx-go adds a value_info that is an output as well twice
	for _, n := range b.nodes {
		name := nameOf(n)
		if done[n.ID()] || named[name] {
			continue
		}
		named[name] = true
		t, x := opts.Types[name], carried(n)
		if slices.Contains(m.Input, n.ID()) {
			if elem, ok := dtypes[dtypeOf(x)]; ok && t.Kind == onnxload.NoType {
				t = onnxload.Type{Kind: onnxload.TensorType, Elem: elem} // its shape lacks the symbolic dimensions
			}
			g = bytesField(g, 11, encodeValue(name, t))
			continue
		}
		w, err := encodeTensor(name, x)
		if x == nil {
			w, err = encodeType(name, t)
		}
		if err != nil {
			return nil, fmt.Errorf("weight %q: %w", name, err)
		}
		g = bytesField(g, 5, w)
	}
	for _, id := range m.Output {
		if n := b.byID[id]; n != nil {
			g = bytesField(g, 12, encodeValue(nameOf(n), onnxload.Type{}))
		}
	}
	return g, nil
}

// invented reports whether a value is the input that onnx-go gives an operation without inputs.
func (b *Backend) invented(m *onnx.Model, n graph.Node) bool {
	return !slices.Contains(m.Input, n.ID()) && strings.HasSuffix(nameOf(n), "/input") && carried(n) == nil
}

func nameOf(n graph.Node) string {
	if x, ok := n.(onnx.Namer); ok {
		return x.GetName()
	}
	return "value " + strconv.FormatInt(n.ID(), 10)
}

func carried(n graph.Node) tensor.Tensor {
	if x, ok := n.(onnx.DataCarrier); ok {
		return x.GetTensor()
	}
	return nil
}

func dtypeOf(x tensor.Tensor) (t tensor.Dtype) {
	if x != nil {
		t = x.Dtype()
	}
	return t
}

var dtypes = map[tensor.Dtype]onnxload.DType{
	tensor.Float32: onnxload.Float32, tensor.Float64: onnxload.Float64, tensor.Bool: onnxload.Bool,
	tensor.Int8: onnxload.Int8, tensor.Int16: onnxload.Int16, tensor.Int32: onnxload.Int32, tensor.Int64: onnxload.Int64,
	tensor.Uint8: onnxload.Uint8, tensor.Uint16: onnxload.Uint16, tensor.Uint32: onnxload.Uint32,
	tensor.Uint64:    onnxload.Uint64,
	tensor.Complex64: onnxload.Complex64, tensor.Complex128: onnxload.Complex128, tensor.String: onnxload.String,
}

// keepElements is how many elements a tensor may have for its data to be recorded: what decides shapes has fewer.
const keepElements = 4096

// encodeTensor writes a tensor of gorgonia as a TensorProto, with its elements if they are few.
func encodeTensor(name string, x tensor.Tensor) ([]byte, error) {
	elem, ok := dtypes[dtypeOf(x)]
	if !ok {
		return nil, fmt.Errorf("type %v, which ONNX does not know", dtypeOf(x))
	}
	var b []byte
	for _, d := range x.Shape() {
		b = varint(b, 1, uint64(d))
	}
	b = bytesField(varint(b, 2, uint64(elem)), 8, name)
	if x.Shape().TotalSize() <= keepElements && elem != onnxload.String {
		raw, err := binary.Append(nil, binary.LittleEndian, x.Data())
		if err != nil {
			return nil, err
		}
		b = bytesField(b, 9, raw)
	}
	return b, nil
}

// encodeType writes a weight of which the type alone is known as a TensorProto.
func encodeType(name string, t onnxload.Type) ([]byte, error) {
	if t.Kind != onnxload.TensorType || !t.HasRank {
		return nil, errors.New("its shape is not known: have onnx-go decode tensors, or set its type in Options.Types")
	}
	var b []byte
	for i, d := range t.Dims {
		if !d.Known {
			return nil, fmt.Errorf("dimension %d in Options.Types is not a number", i)
		}
		b = varint(b, 1, uint64(d.Size))
	}
	return bytesField(varint(b, 2, uint64(t.Elem)), 8, name), nil
}

// encodeValue writes a ValueInfoProto; of a tensor's type what is known.
func encodeValue(name string, t onnxload.Type) []byte {
	b := bytesField(nil, 1, name)
	if t.Kind != onnxload.TensorType {
		return b
	}
	of := varint(nil, 1, uint64(t.Elem))
	if t.HasRank {
		var shape []byte
		for _, d := range t.Dims {
			var dim []byte
			if d.Known {
				dim = varint(nil, 1, uint64(d.Size))
			} else if d.Param != "" {
				dim = bytesField(nil, 2, d.Param)
			}
			shape = bytesField(shape, 1, dim)
		}
		of = bytesField(of, 2, shape)
	}
	return bytesField(b, 2, bytesField(nil, 1, of))
}

// encodeAttr writes an AttributeProto.
func encodeAttr(name string, value any) ([]byte, error) {
	a, t := bytesField(nil, 1, name), onnxload.AttrUndefined
	switch v := value.(type) {
	case struct{}: // an attribute of a file that declares no types: onnx-go drops the value
		return nil, errors.New("has no type, and onnx-go did not keep its value")
	case float32:
		a, t = float32Field(a, 2, v), onnxload.AttrFloat
	case int64:
		a, t = varint(a, 3, uint64(v)), onnxload.AttrInt
	case string:
		a, t = bytesField(a, 4, v), onnxload.AttrString
	case []float32:
		for _, x := range v {
			a = float32Field(a, 7, x)
		}
		t = onnxload.AttrFloats
	case []int64:
		for _, x := range v {
			a = varint(a, 8, uint64(x))
		}
		t = onnxload.AttrInts
	case []string:
		for _, x := range v {
			a = bytesField(a, 9, x)
		}
		t = onnxload.AttrStrings
	case tensor.Tensor:
		x, err := encodeTensor("", v)
		if err != nil {
			return nil, err
		}
		a, t = bytesField(a, 5, x), onnxload.AttrTensor
	default:
		return nil, fmt.Errorf("is a %T", v)
	}
	return varint(a, 20, uint64(t)), nil
}

// Writers of protobuf fields; the numbers are those of onnx.proto.

func tag(b []byte, field, wire int) []byte {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(wire))
}

func varint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(tag(b, field, 0), v)
}

func bytesField[T string | []byte](b []byte, field int, v T) []byte {
	return append(binary.AppendUvarint(tag(b, field, 2), uint64(len(v))), v...)
}

func float32Field(b []byte, field int, v float32) []byte {
	return binary.LittleEndian.AppendUint32(tag(b, field, 5), math.Float32bits(v))
}
