package kernels

import "strings"

// A Tensor is how an argument or a result lies. Strides are in elements.
type Tensor struct {
	Shape, Stride []int64
	DType         string // as PyTorch spells it: "float32"
	Elem          int64  // bytes of an element
	Host          bool   // it is not on the GPU

	RowMajor     bool // contiguous
	ChannelsLast bool // by its strides, as suggest_memory_format sees it
	Dense        bool // without gaps or overlaps
	Elements     int64
}

// dtypes are the bytes of PyTorch's element types.
var dtypes = map[string]int64{
	"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1,
	"bool":      1,
	"complex64": 8, "complex128": 16, "complex32": 4, "uint16": 2, "uint32": 4, "uint64": 8,
	"float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1,
	"float4_e2m1fn_x2": 1,
}

// NewTensor describes a tensor. An unknown element type counts one byte.
func NewTensor(dtype string, shape, stride []int64, host bool) *Tensor {
	t := &Tensor{Shape: shape, Stride: stride, DType: dtype, Elem: max(dtypes[dtype], 1), Host: host,
		Elements: saturate(shape...)}
	t.RowMajor = t.Elements == 0 || IsRowMajor(shape, stride)
	t.ChannelsLast = IsChannelsLast(shape, stride)
	t.Dense = IsDense(shape, stride)
	return t
}

// Bytes returns what the elements take.
func (t *Tensor) Bytes() int64 { return saturate(t.Elements, t.Elem) }

// as returns the bytes of the elements in another type.
func (t *Tensor) as(elem int64) int64 { return saturate(t.Elements, elem) }

// size returns the extent of a dimension, 1 where there is none.
func (t *Tensor) size(dim int) int64 {
	if dim < 0 {
		dim += len(t.Shape)
	}
	if dim < 0 || dim >= len(t.Shape) {
		return 1
	}
	return t.Shape[dim]
}

// isInt reports an integer or a bool.
func (t *Tensor) isInt() bool {
	return strings.Contains(t.DType, "int") || t.DType == "bool"
}

// A lay is an arrangement of a tensor's dimensions in memory: the strides of a shape.
type lay func(shape []int64) []int64

// copied returns the bytes of the copy that contiguous(memory_format) makes of t, 0 where it lies so already.
func (t *Tensor) copied(l lay) int64 {
	if t.lies(l) {
		return 0
	}
	return t.Bytes()
}

// lies reports whether t lies so.
func (t *Tensor) lies(l lay) bool {
	if t.Elements == 0 {
		return true
	}
	want := l(t.Shape)
	for i, n := range t.Shape {
		if n != 1 && t.Stride[i] != want[i] {
			return false
		}
	}
	return true
}

// in returns t as it is after contiguous(memory_format).
func (t *Tensor) in(l lay) *Tensor {
	if t.lies(l) {
		return t
	}
	return NewTensor(t.DType, t.Shape, l(t.Shape), t.Host)
}

// like is the order in which a tensor of the same sizes lies.
func like(t *Tensor) lay {
	return func(shape []int64) []int64 {
		if len(shape) != len(t.Stride) {
			return RowMajor(shape)
		}
		return t.Stride
	}
}
