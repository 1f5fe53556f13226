package onnxload

import "fmt"

// A DType is an element type, numbered as ONNX's TensorProto.DataType.
type DType uint8

// The element types of ONNX IR 14.
const (
	Undefined DType = iota
	Float32
	Uint8
	Int8
	Uint16
	Int16
	Int32
	Int64
	String
	Bool
	Float16
	Float64
	Uint32
	Uint64
	Complex64
	Complex128
	BFloat16
	Float8E4M3FN
	Float8E4M3FNUZ
	Float8E5M2
	Float8E5M2FNUZ
	Uint4
	Int4
	Float4E2M1
	Float8E8M0
	Uint2
	Int2
	numDTypes
)

// dtypes holds the name, as ONNX's reference spells it, and the bits of one element.
// Strings have no fixed size: 0 bits.
var dtypes = [numDTypes]struct {
	name string
	bits uint8
}{
	Undefined:      {"undefined", 0},
	Float32:        {"float32", 32},
	Uint8:          {"uint8", 8},
	Int8:           {"int8", 8},
	Uint16:         {"uint16", 16},
	Int16:          {"int16", 16},
	Int32:          {"int32", 32},
	Int64:          {"int64", 64},
	String:         {"string", 0},
	Bool:           {"bool", 8},
	Float16:        {"float16", 16},
	Float64:        {"float64", 64},
	Uint32:         {"uint32", 32},
	Uint64:         {"uint64", 64},
	Complex64:      {"complex64", 64},
	Complex128:     {"complex128", 128},
	BFloat16:       {"bfloat16", 16},
	Float8E4M3FN:   {"float8e4m3fn", 8},
	Float8E4M3FNUZ: {"float8e4m3fnuz", 8},
	Float8E5M2:     {"float8e5m2", 8},
	Float8E5M2FNUZ: {"float8e5m2fnuz", 8},
	Uint4:          {"uint4", 4},
	Int4:           {"int4", 4},
	Float4E2M1:     {"float4e2m1", 4},
	Float8E8M0:     {"float8e8m0", 8},
	Uint2:          {"uint2", 2},
	Int2:           {"int2", 2},
}

// Valid reports whether d is an element type that ONNX defines.
func (d DType) Valid() bool { return d > Undefined && d < numDTypes }

// Bits returns the size of one element in bits: 0 for strings and undefined
// types. Types below 8 bits are stored packed.
func (d DType) Bits() int64 {
	if d >= numDTypes {
		return 0
	}
	return int64(dtypes[d].bits)
}

// String returns ONNX's name of the type: "float32", "int64", ...
func (d DType) String() string {
	if d >= numDTypes {
		return fmt.Sprintf("dtype(%d)", uint8(d))
	}
	return dtypes[d].name
}

// IsFloat reports whether d is a real floating-point type of any width.
func (d DType) IsFloat() bool {
	switch d {
	case Float32, Float16, Float64, BFloat16, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float4E2M1,
		Float8E8M0:
		return true
	}
	return false
}

// IsInt reports whether d is a signed or unsigned integer type of any width.
func (d DType) IsInt() bool {
	switch d {
	case Uint8, Int8, Uint16, Int16, Int32, Int64, Uint32, Uint64, Uint4, Int4, Uint2, Int2:
		return true
	}
	return false
}
