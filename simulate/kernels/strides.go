package kernels

// RowMajor returns the strides of a row-major tensor. A dimension of size 0 counts as 1, as in PyTorch.
func RowMajor(shape []int64) []int64 {
	s := make([]int64, len(shape))
	n := int64(1)
	for i := len(shape) - 1; i >= 0; i-- {
		s[i] = n
		n = saturate(n, max(shape[i], 1))
	}
	return s
}

// ChannelsLast returns the strides of NHWC or NDHWC order; of fewer than three dimensions, of rows.
func ChannelsLast(shape []int64) []int64 {
	if len(shape) < 3 {
		return RowMajor(shape)
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

// IsRowMajor reports row-major order; the strides of dimensions of size 1 do not matter.
func IsRowMajor(shape, stride []int64) bool {
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

// IsChannelsLast reports NHWC or NDHWC order as is_channels_last_strides_2d of c10/core/MemoryFormat.h decides it.
func IsChannelsLast(shape, stride []int64) bool {
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

// IsDense reports whether the elements fill their storage without gaps or overlaps, in some order of the dimensions.
func IsDense(shape, stride []int64) bool {
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
