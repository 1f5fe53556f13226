package onnxgo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
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

	// Types by name, of inputs (symbolic dimensions are allowed), and of weights
	// where the backend has no tensors.
	Types map[string]onnxload.Type
}

// Model returns the recorded model. m is the onnx.Model that decoded into the
// backend. Values that nothing produces are its inputs where m says so, and weights
// otherwise: the shape of a weight comes from its tensor, or from opts.
func (b *Backend) Model(m *onnx.Model, opts Options) (*onnxload.Model, error) {
	if opts.Opset <= 0 {
		return nil, errors.New("onnxgo: Options.Opset is not set, and onnx-go does not tell which operator " +
			"set the model imports")
	}
	data, err := b.encode(m, opts)
	if err != nil {
		return nil, fmt.Errorf("onnxgo: %w", err)
	}
	return onnxload.Read(bytes.NewReader(data), int64(len(data)), onnxload.Options{Path: opts.Path})
}

// encode writes what was recorded as an ONNX file, so that onnxload checks it
// as it does every other.
func (b *Backend) encode(m *onnx.Model, opts Options) ([]byte, error) {
	produced := map[int64]bool{}
	for _, op := range b.ops {
		for _, n := range op.out {
			produced[n.ID()] = true
		}
	}
	input := map[int64]bool{}
	for _, id := range m.Input {
		input[id] = true
	}
	var g []byte
	fake := map[int64]bool{}
	for _, op := range b.ops {
		in := op.in
		if len(in) == 1 && b.isFake(in[0], produced, input) {
			fake[in[0].ID()] = true
			in = nil
		}
		var n []byte
		for _, x := range in {
			n = bytesField(n, 1, nodeName(x))
		}
		for _, x := range op.out {
			n = bytesField(n, 2, nodeName(x))
		}
		n = bytesField(n, 4, op.name)
		attrs, err := encodeAttrs(op.attrs)
		if err != nil {
			return nil, fmt.Errorf("operation %q: %w", op.name, err)
		}
		g = bytesField(g, 1, append(n, attrs...))
	}
	g = bytesField(g, 2, "onnx-go")
	done := map[string]bool{"": true} // onnx-go adds a value_info that is an output as well twice
	for _, n := range b.nodes {
		id, name := n.ID(), nodeName(n)
		if produced[id] || fake[id] || done[name] {
			continue
		}
		done[name] = true
		t := opts.Types[name]
		if input[id] {
			if x := carried(n); x != nil && t.Kind == onnxload.NoType {
				// The shape lacks the symbolic dimensions: it is not the input's.
				if elem, ok := dtypes[x.Dtype()]; ok {
					t = onnxload.Type{Kind: onnxload.TensorType, Elem: elem}
				}
			}
			g = bytesField(g, 11, encodeValue(name, t))
			continue
		}
		w, err := encodeWeight(name, n, t)
		if err != nil {
			return nil, err
		}
		g = bytesField(g, 5, w)
	}
	for _, id := range m.Output {
		if n := b.byID[id]; n != nil {
			g = bytesField(g, 12, encodeValue(nodeName(n), onnxload.Type{}))
		}
	}
	out := varint(nil, 1, 8)
	out = bytesField(out, 2, "onnx-go")
	out = bytesField(out, 7, g)
	return bytesField(out, 8, varint(nil, 2, uint64(opts.Opset))), nil
}

// isFake recognises the input that onnx-go gives an operation without inputs.
func (b *Backend) isFake(n graph.Node, produced, input map[int64]bool) bool {
	return !produced[n.ID()] && !input[n.ID()] && strings.HasSuffix(nodeName(n), "/input") && carried(n) == nil
}

func nodeName(n graph.Node) string {
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

var dtypes = map[tensor.Dtype]onnxload.DType{
	tensor.Float32: onnxload.Float32, tensor.Float64: onnxload.Float64, tensor.Bool: onnxload.Bool,
	tensor.Int8: onnxload.Int8, tensor.Int16: onnxload.Int16, tensor.Int32: onnxload.Int32, tensor.Int64: onnxload.Int64,
	tensor.Uint8: onnxload.Uint8, tensor.Uint16: onnxload.Uint16, tensor.Uint32: onnxload.Uint32,
	tensor.Uint64:    onnxload.Uint64,
	tensor.Complex64: onnxload.Complex64, tensor.Complex128: onnxload.Complex128, tensor.String: onnxload.String,
}

// keepElements is how many elements a tensor may have for its data to be
// recorded: what decides shapes has fewer.
const keepElements = 4096

func encodeWeight(name string, n graph.Node, t onnxload.Type) ([]byte, error) {
	if x := carried(n); x != nil {
		return encodeGorgonia(name, x)
	}
	if t.Kind != onnxload.TensorType || !t.HasRank {
		return nil, fmt.Errorf("weight %q: its shape is not known: set Backend.Tensors, or its type in Options.Types", name)
	}
	dims := make([]int64, len(t.Dims))
	for i, d := range t.Dims {
		if !d.Known {
			return nil, fmt.Errorf("weight %q: dimension %d in Options.Types is not a number", name, i)
		}
		dims[i] = d.Size
	}
	return encodeTensor(name, t.Elem, dims, nil), nil
}

// encodeGorgonia writes a tensor of gorgonia, with its elements if they are few.
func encodeGorgonia(name string, x tensor.Tensor) ([]byte, error) {
	elem, ok := dtypes[x.Dtype()]
	if !ok {
		return nil, fmt.Errorf("tensor %q has type %v, which ONNX does not know", name, x.Dtype())
	}
	var dims []int64
	for _, d := range x.Shape() {
		dims = append(dims, int64(d))
	}
	var raw []byte
	le := binary.LittleEndian
	if x.Shape().TotalSize() <= keepElements {
		switch v := x.Data().(type) {
		case []int64:
			for _, e := range v {
				raw = le.AppendUint64(raw, uint64(e))
			}
		case int64:
			raw = le.AppendUint64(raw, uint64(v))
		case []int32:
			for _, e := range v {
				raw = le.AppendUint32(raw, uint32(e))
			}
		case int32:
			raw = le.AppendUint32(raw, uint32(v))
		case []float32:
			for _, e := range v {
				raw = le.AppendUint32(raw, math.Float32bits(e))
			}
		case float32:
			raw = le.AppendUint32(raw, math.Float32bits(v))
		case []float64:
			for _, e := range v {
				raw = le.AppendUint64(raw, math.Float64bits(e))
			}
		case float64:
			raw = le.AppendUint64(raw, math.Float64bits(v))
		case []bool:
			for _, e := range v {
				raw = append(raw, boolByte(e))
			}
		case bool:
			raw = append(raw, boolByte(v))
		}
	}
	return encodeTensor(name, elem, dims, raw), nil
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// encodeAttrs writes the attributes of an operation, in the order of their names.
func encodeAttrs(attrs map[string]any) ([]byte, error) {
	names := make([]string, 0, len(attrs))
	for name := range attrs {
		names = append(names, name)
	}
	slices.Sort(names)
	var b []byte
	for _, name := range names {
		a := bytesField([]byte(nil), 1, name)
		t := onnxload.AttrUndefined
		switch v := attrs[name].(type) {
		case struct{}: // an attribute of a file that declares no types: onnx-go drops the value
			return nil, fmt.Errorf("attribute %q has no type, and onnx-go did not keep its value", name)
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
			x, err := encodeGorgonia("", v)
			if err != nil {
				return nil, fmt.Errorf("attribute %q: %w", name, err)
			}
			a, t = bytesField(a, 5, x), onnxload.AttrTensor
		default:
			return nil, fmt.Errorf("attribute %q is a %T", name, v)
		}
		b = bytesField(b, 5, varint(a, 20, uint64(t)))
	}
	return b, nil
}
