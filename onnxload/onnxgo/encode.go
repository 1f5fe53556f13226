package onnxgo

import (
	"encoding/binary"
	"math"

	"github.com/memestimate/memestimate/onnxload"
)

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

// encodeTensor writes a TensorProto; raw may be nil.
func encodeTensor(name string, t onnxload.DType, dims []int64, raw []byte) []byte {
	var b []byte
	for _, d := range dims {
		b = varint(b, 1, uint64(d))
	}
	b = varint(b, 2, uint64(t))
	if name != "" {
		b = bytesField(b, 8, name)
	}
	if raw != nil {
		b = bytesField(b, 9, raw)
	}
	return b
}

// encodeType writes a TypeProto; nil when nothing is known.
func encodeType(t onnxload.Type) []byte {
	var of []byte
	if t.Of != nil {
		of = encodeType(*t.Of)
	}
	switch t.Kind {
	case onnxload.TensorType, onnxload.SparseTensorType:
		b := varint(nil, 1, uint64(t.Elem))
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
			b = bytesField(b, 2, shape)
		}
		if t.Kind == onnxload.SparseTensorType {
			return bytesField(nil, 8, b)
		}
		return bytesField(nil, 1, b)
	case onnxload.SequenceType:
		return bytesField(nil, 4, bytesField(nil, 1, of))
	case onnxload.OptionalType:
		return bytesField(nil, 9, bytesField(nil, 1, of))
	case onnxload.MapType:
		return bytesField(nil, 5, bytesField(varint(nil, 1, uint64(t.Elem)), 2, of))
	}
	return nil
}

func encodeValue(name string, t onnxload.Type) []byte {
	b := bytesField([]byte(nil), 1, name)
	if typ := encodeType(t); typ != nil {
		b = bytesField(b, 2, typ)
	}
	return b
}
