package onnxgo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
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
	g, err := b.graph(m, opts)
	if err != nil {
		return nil, fmt.Errorf("onnxgo: %w", err)
	}
	file := onnxtest.Model{IR: 8, Opset: int64(opts.Opset), Producer: "onnx-go", Graph: g}.Bytes()
	return onnxload.Read(bytes.NewReader(file), int64(len(file)), onnxload.Options{Path: opts.Path})
}

// graph returns the recorded graph as a file has it.
func (b *Backend) graph(m *onnx.Model, opts Options) (onnxtest.Graph, error) {
	done := map[int64]bool{} // what an operation produces, and inputs that onnx-go invents
	for _, op := range b.ops {
		for _, n := range op.out {
			done[n.ID()] = true
		}
	}
	g := onnxtest.Graph{Name: "onnx-go"}
	for _, op := range b.ops {
		in := op.in
		if len(in) == 1 && !done[in[0].ID()] && b.invented(m, in[0]) {
			done[in[0].ID()] = true
			in = nil
		}
		n := onnxtest.Node{Op: op.name}
		for _, x := range in {
			n.In = append(n.In, nameOf(x))
		}
		for _, x := range op.out {
			n.Out = append(n.Out, nameOf(x))
		}
		for _, name := range slices.Sorted(maps.Keys(op.attrs)) {
			v, err := attribute(op.attrs[name])
			if err != nil {
				return g, fmt.Errorf("operation %q: attribute %q: %w", op.name, name, err)
			}
			n.Attrs = append(n.Attrs, onnxtest.Attr{Name: name, Value: v})
		}
		g.Nodes = append(g.Nodes, n)
	}
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
			g.In = append(g.In, onnxtest.Value{Name: name, Type: typeOf(t)})
			continue
		}
		w, err := tensorOf(name, x)
		if x == nil {
			w, err = bare(name, t)
		}
		if err != nil {
			return g, fmt.Errorf("weight %q: %w", name, err)
		}
		g.Inits = append(g.Inits, w)
	}
	for _, id := range m.Output {
		if n := b.byID[id]; n != nil {
			g.Out = append(g.Out, onnxtest.Value{Name: nameOf(n)})
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

// tensorOf returns a tensor of gorgonia, with its elements if they are few.
func tensorOf(name string, x tensor.Tensor) (t onnxtest.Tensor, err error) {
	elem, ok := dtypes[dtypeOf(x)]
	if !ok {
		return t, fmt.Errorf("type %v, which ONNX does not know", dtypeOf(x))
	}
	t = onnxtest.Tensor{Name: name, DType: elem}
	for _, d := range x.Shape() {
		t.Dims = append(t.Dims, int64(d))
	}
	if x.Shape().TotalSize() <= keepElements && elem != onnxload.String {
		t.Raw, err = binary.Append(nil, binary.LittleEndian, x.Data())
	}
	return t, err
}

// bare returns a weight of which the type alone is known.
func bare(name string, t onnxload.Type) (onnxtest.Tensor, error) {
	w := onnxtest.Bare(name, t.Elem)
	if t.Kind != onnxload.TensorType || !t.HasRank {
		return w, errors.New("its shape is not known: have onnx-go decode tensors, or set its type in Options.Types")
	}
	for i, d := range t.Dims {
		if !d.Known {
			return w, fmt.Errorf("dimension %d in Options.Types is not a number", i)
		}
		w.Dims = append(w.Dims, d.Size)
	}
	return w, nil
}

// typeOf returns what is known of a tensor's type; of others nothing is said.
func typeOf(t onnxload.Type) onnxtest.Type {
	if t.Kind != onnxload.TensorType {
		return onnxtest.Type{}
	}
	of := onnxtest.Type{Kind: t.Kind, Elem: t.Elem, NoRank: !t.HasRank}
	for _, d := range t.Dims {
		switch {
		case d.Known:
			of.Dims = append(of.Dims, d.Size)
		case d.Param != "":
			of.Dims = append(of.Dims, d.Param)
		default:
			of.Dims = append(of.Dims, nil)
		}
	}
	return of
}

// attribute returns the value of an attribute.
func attribute(value any) (any, error) {
	switch v := value.(type) {
	case struct{}: // an attribute of a file that declares no types: onnx-go drops the value
		return nil, errors.New("has no type, and onnx-go did not keep its value")
	case float32, int64, string, []float32, []int64, []string:
		return v, nil
	case tensor.Tensor:
		return tensorOf("", v)
	}
	return nil, fmt.Errorf("is a %T", value)
}
