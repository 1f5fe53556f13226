package program

import "slices"

// Numel returns how many elements a tensor of a shape has.
func Numel(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// BytesOf returns the bytes of n elements; those of four bits and fewer share bytes, of which the last may not be full.
func BytesOf(n int64, d DType) int64 { return (n*d.Bits() + 7) / 8 }

// BroadcastShapes returns the shape that these shapes are broadcast to.
func BroadcastShapes(from ...[]int64) []int64 {
	n := 0
	for _, s := range from {
		n = max(n, len(s))
	}
	shape := make([]int64, n)
	for i := range shape {
		shape[i] = 1
		for _, s := range from {
			if j := i - (n - len(s)); j >= 0 && s[j] != 1 {
				shape[i] = s[j]
			}
		}
	}
	return shape
}

// MaxBytes is the largest tensor that is simulated, 1024 TiB: far more than any computer has, and small
// enough for every product of its sizes, its element's and a kernel's constants to fit 64 bits.
const MaxBytes = 1 << 50

// held reports whether a tensor takes at most MaxBytes, also with sizes of 1 in place of those of 0.
func held(shape []int64, d DType) bool {
	all := max(d.Bits(), 1)
	for _, n := range shape {
		if n < 0 || max(n, 1) > 8*MaxBytes/all {
			return false
		}
		all *= max(n, 1)
	}
	return true
}

func distinct(dims []int) bool {
	for i, d := range dims {
		if slices.Contains(dims[:i], d) {
			return false
		}
	}
	return true
}

// Broadcasts reports whether a tensor of one shape can be expanded to another.
func Broadcasts(from, to []int64) bool {
	lead := len(to) - len(from)
	if lead < 0 {
		return false
	}
	for i, n := range from {
		if n != 1 && n != to[lead+i] {
			return false
		}
	}
	return true
}

// HashDims adds sizes to a hash.
func HashDims(h uint64, dims []int64) uint64 {
	for _, n := range dims {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return h
}
