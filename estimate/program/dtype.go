package program

// A DType is an element type of PyTorch's tensors.
type DType uint8

// The element types. Those of fewer than 8 bits stand for what files hold packed; PyTorch unpacks them.
const (
	Undefined DType = iota
	Bool
	Uint8
	Int8
	Uint16
	Int16
	Uint32
	Int32
	Uint64
	Int64
	Float16
	BFloat16
	Float32
	Float64
	Complex64
	Complex128
	Float8E4M3FN
	Float8E4M3FNUZ
	Float8E5M2
	Float8E5M2FNUZ
	Float8E8M0
	Float4
	Uint4
	Int4
	Uint2
	Int2
	numDTypes
)

var dtypes = [numDTypes]struct {
	name string
	bits uint8
}{
	Undefined:      {"undefined", 0},
	Bool:           {"bool", 8},
	Uint8:          {"uint8", 8},
	Int8:           {"int8", 8},
	Uint16:         {"uint16", 16},
	Int16:          {"int16", 16},
	Uint32:         {"uint32", 32},
	Int32:          {"int32", 32},
	Uint64:         {"uint64", 64},
	Int64:          {"int64", 64},
	Float16:        {"float16", 16},
	BFloat16:       {"bfloat16", 16},
	Float32:        {"float32", 32},
	Float64:        {"float64", 64},
	Complex64:      {"complex64", 64},
	Complex128:     {"complex128", 128},
	Float8E4M3FN:   {"float8_e4m3fn", 8},
	Float8E4M3FNUZ: {"float8_e4m3fnuz", 8},
	Float8E5M2:     {"float8_e5m2", 8},
	Float8E5M2FNUZ: {"float8_e5m2fnuz", 8},
	Float8E8M0:     {"float8_e8m0fnu", 8},
	Float4:         {"float4_e2m1fn", 4},
	Uint4:          {"uint4", 4},
	Int4:           {"int4", 4},
	Uint2:          {"uint2", 2},
	Int2:           {"int2", 2},
}

// Bits returns the size of one element in bits, 0 for undefined types.
func (d DType) Bits() int64 {
	if d >= numDTypes {
		return 0
	}
	return int64(dtypes[d].bits)
}

// String returns PyTorch's name of the type: "float32", "int64", ...
func (d DType) String() string {
	if d >= numDTypes {
		return "undefined"
	}
	return dtypes[d].name
}

// IsFloat reports whether d is a real floating-point type of any width.
func (d DType) IsFloat() bool {
	return d >= Float16 && d <= Float64 || d >= Float8E4M3FN && d <= Float4
}

// IsInt reports whether d is a signed or unsigned integer type of any width.
func (d DType) IsInt() bool {
	return d >= Uint8 && d <= Int64 || d >= Uint4 && d <= Int2
}
