package onnxgo

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/memestimate/memestimate/onnxload"
)

// Skeleton returns the model's main graph as an ONNX file that onnx-go v0.5.0
// takes, whatever the model: without weights and types, functions inlined, and
// with strings in the place of attributes that are graphs, types, or tensors that it
// cannot decode. Small constants of float32, float64, int32 and int64 are kept.
func Skeleton(m *onnxload.Model) []byte { return encodeGraph(m, m.Graph).model }

// encodeGraph writes the skeleton of a graph that onnxload has read.
func encodeGraph(m *onnxload.Model, g *onnxload.Graph) *skeleton {
	k := &skeleton{}
	var b []byte
	name := func(id onnxload.ValueID) string { return safe(m.NameOf(id)) }
	for i := range g.Nodes {
		n := &g.Nodes[i]
		x := skeletonNode{name: safe(n.Name), op: safe(n.Op), domain: safe(n.Domain), outs: len(n.Out)}
		var nb []byte
		for _, id := range n.In {
			nb = bytesField(nb, 1, name(id))
		}
		for _, id := range n.Out {
			nb = bytesField(nb, 2, name(id))
		}
		if len(n.Out) == 0 {
			nb = bytesField(nb, 2, noOutput+strconv.Itoa(i))
		}
		nb = bytesField(nb, 3, x.name)
		nb = bytesField(nb, 4, x.op)
		for j := range n.Attrs {
			a := &n.Attrs[j]
			nb = bytesField(nb, 5, encodeAttr(m, a))
			for l, sub := range a.Graphs {
				x.subs = append(x.subs, subskeleton{safe(a.Name), l, encodeGraph(m, sub)})
			}
		}
		nb = bytesField(nb, 7, x.domain)
		k.nodes = append(k.nodes, x)
		b = bytesField(b, 1, nb)
	}
	for _, id := range g.Inits {
		if t := encodeConstant(m, m.Values[id].Init, name(id)); t != nil {
			b = bytesField(b, 5, t)
		}
	}
	for _, id := range g.Inputs {
		b = bytesField(b, 11, bytesField([]byte(nil), 1, name(id)))
	}
	for _, id := range g.Outputs {
		b = bytesField(b, 12, bytesField([]byte(nil), 1, name(id)))
	}
	k.model = finish(b, len(g.Outputs))
	return k
}

func encodeAttr(m *onnxload.Model, a *onnxload.Attr) []byte {
	b := bytesField([]byte(nil), 1, safe(a.Name))
	t := a.Type
	switch a.Type {
	case onnxload.AttrFloat:
		b = float32Field(b, 2, a.Float)
	case onnxload.AttrInt:
		b = varint(b, 3, uint64(a.Int))
	case onnxload.AttrString:
		if len(a.Str) > longest {
			b = bytesField(b, 4, replaced)
		} else {
			b = bytesField(b, 4, a.Str)
		}
	case onnxload.AttrFloats:
		for _, x := range a.Floats {
			b = float32Field(b, 7, x)
		}
	case onnxload.AttrInts:
		for _, x := range a.Ints {
			b = varint(b, 8, uint64(x))
		}
	case onnxload.AttrStrings:
		for _, x := range a.Strs {
			b = bytesField(b, 9, x)
		}
	case onnxload.AttrUndefined:
	default:
		if a.Type == onnxload.AttrTensor {
			if x := encodeConstant(m, a.Tensors[0], ""); x != nil {
				b = bytesField(b, 5, x)
				break
			}
		}
		b, t = bytesField(b, 4, replaced), onnxload.AttrString
	}
	return varint(b, 20, uint64(t))
}

// encodeConstant writes a constant that onnx-go can decode; nil when it cannot,
// or when it is large.
func encodeConstant(m *onnxload.Model, t *onnxload.Tensor, name string) []byte {
	n, err := t.Elements()
	if err != nil || n == 0 || n > keepElements || t.Sparse != nil {
		return nil
	}
	le := binary.LittleEndian
	var raw []byte
	switch t.DType {
	case onnxload.Int32, onnxload.Int64:
		v, err := m.Ints(t)
		if err != nil {
			return nil
		}
		for _, x := range v {
			if t.DType == onnxload.Int32 {
				raw = le.AppendUint32(raw, uint32(x))
			} else {
				raw = le.AppendUint64(raw, uint64(x))
			}
		}
	case onnxload.Float32, onnxload.Float64:
		v, err := m.Floats(t)
		if err != nil {
			return nil
		}
		for _, x := range v {
			if t.DType == onnxload.Float32 {
				raw = le.AppendUint32(raw, math.Float32bits(float32(x)))
			} else {
				raw = le.AppendUint64(raw, math.Float64bits(x))
			}
		}
	default:
		return nil
	}
	return encodeTensor(name, t.DType, t.Dims, raw)
}
