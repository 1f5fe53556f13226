package onnxtest

import "encoding/binary"

// Tag appends a field's tag: its number and wire type.
func Tag(b []byte, field, wire int) []byte {
	return binary.AppendUvarint(b, uint64(field)<<3|uint64(wire))
}

// Varint appends a varint field.
func Varint(b []byte, field int, v uint64) []byte {
	return binary.AppendUvarint(Tag(b, field, 0), v)
}

// Bytes appends a length-delimited field: a message, a string, packed numbers.
func Bytes(b []byte, field int, v []byte) []byte {
	b = binary.AppendUvarint(Tag(b, field, 2), uint64(len(v)))
	return append(b, v...)
}

// Str appends a string field.
func Str(b []byte, field int, s string) []byte { return Bytes(b, field, []byte(s)) }

func fixed32(b []byte, field int, v uint32) []byte {
	return binary.LittleEndian.AppendUint32(Tag(b, field, 5), v)
}
