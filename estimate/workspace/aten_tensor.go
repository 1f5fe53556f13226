package workspace

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
	"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2, "int64": 8, "int32": 4, "int16": 2, "int8": 1, "uint8": 1, "bool": 1,
	"complex64": 8, "complex128": 16, "complex32": 4, "uint16": 2, "uint32": 4, "uint64": 8,
	"float8_e4m3fn": 1, "float8_e5m2": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "float8_e8m0fnu": 1, "float4_e2m1fn_x2": 1,
}

// NewTensor describes a tensor. An unknown element type counts one byte.
func NewTensor(dtype string, shape, stride []int64, host bool) *Tensor {
	t := &Tensor{Shape: shape, Stride: stride, DType: dtype, Elem: max(dtypes[dtype], 1), Host: host, Elements: saturate(shape...)}
	t.RowMajor = t.Elements == 0 || isRowMajor(shape, stride)
	t.ChannelsLast = isChannelsLast(shape, stride)
	t.Dense = isDense(shape, stride)
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

// inRows is row-major order. A dimension of size 0 counts as 1, as in PyTorch.
func inRows(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n = saturate(n, max(shape[i], 1))
	}
	return s
}

// inChannels is NHWC or NDHWC order.
func inChannels(shape []int64) []int64 {
	if len(shape) < 3 {
		return inRows(shape)
	}
	s := make([]int64, len(shape))
	n := int64(1)
	at := func(i int) {
		s[i] = n
		n = saturate(n, max(shape[i], 1))
	}
	at(1)
	for i := len(shape) - 1; i >= 2; i-- {
		at(i)
	}
	at(0)
	return s
}

// like is the order in which a tensor of the same sizes lies.
func like(t *Tensor) lay {
	return func(shape []int64) []int64 {
		if len(shape) != len(t.Stride) {
			return inRows(shape)
		}
		return t.Stride
	}
}

func isRowMajor(shape, stride []int64) bool {
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		if shape[i] != 1 {
			if stride[i] != n {
				return false
			}
			n = saturate(n, shape[i])
		}
	}
	return true
}

// isChannelsLast reports NHWC or NDHWC order as is_channels_last_strides_2d of c10/core/MemoryFormat.h decides it.
func isChannelsLast(shape, stride []int64) bool {
	if len(shape) != 4 && len(shape) != 5 || stride[1] == 0 {
		return false
	}
	least := int64(0)
	order := []int{1, 3, 2, 0}
	if len(shape) == 5 {
		order = []int{1, 4, 3, 2, 0}
	}
	for _, d := range order {
		if shape[d] == 0 || stride[d] < least {
			return false
		}
		if d == 0 && least == stride[1] { // [N,1,1,1] with the strides of a row-major tensor is not channels last
			return false
		}
		least = stride[d]
		if shape[d] > 1 {
			least = saturate(least, shape[d])
		}
	}
	return true
}

// isDense reports whether the elements fill their storage without gaps or overlaps, in some order of the dimensions.
func isDense(shape, stride []int64) bool {
	left := 0
	for _, n := range shape {
		if n == 0 {
			return true
		}
		if n > 1 {
			left++
		}
	}
	for n := int64(1); left > 0; left-- {
		next := -1
		for i := range shape {
			if shape[i] > 1 && stride[i] == n {
				next = i
			}
		}
		if next < 0 {
			return false
		}
		n = saturate(n, shape[next])
	}
	return true
}
