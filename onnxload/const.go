package onnxload

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Ints returns the elements of a small integer or bool tensor (0 and 1), in row-major
// order. Unsigned 64-bit elements above the largest int64 wrap. The error
// wraps ErrNoData when the payload is absent, ErrTooLarge when it is larger
// than Limits.Const.
func (m *Model) Ints(t *Tensor) ([]int64, error) {
	if !t.DType.IsInt() && t.DType != Bool {
		return nil, fmt.Errorf("tensor %q is %s, not an integer", t.Name, t.DType)
	}
	if t.made != nil {
		return slices.Clone(t.made), nil
	}
	if t.Sparse != nil {
		return densify(m, t, (*Model).Ints)
	}
	var typed []int64
	raw, n, err := m.elements(t, func(c *cursor, f uint32, w uint8) {
		typed = c.intList(typed, w, fieldNames[f])
	})
	if err != nil {
		return nil, err
	}
	if raw != nil {
		return intsOf(raw, t.DType, n), nil
	}
	return typedInts(t, typed, n)
}

// Floats returns the elements of a small floating-point tensor of any width, in
// row-major order. Errors are as for Ints.
func (m *Model) Floats(t *Tensor) ([]float64, error) {
	if !t.DType.IsFloat() {
		return nil, fmt.Errorf("tensor %q is %s, not a floating-point type", t.Name, t.DType)
	}
	if t.Sparse != nil {
		return densify(m, t, (*Model).Floats)
	}
	var typed []float64
	var words []int64
	raw, n, err := m.elements(t, func(c *cursor, f uint32, w uint8) {
		switch {
		case f == fieldDouble && w == wireI64:
			typed = append(typed, math.Float64frombits(c.fixed64()))
		case f == fieldDouble:
			outer := c.enter(w, fieldNames[f])
			for c.more() {
				typed = append(typed, math.Float64frombits(c.fixed64()))
			}
			c.leave(outer)
		case f == fieldFloat:
			for _, x := range c.floatList(nil, w, fieldNames[f]) {
				typed = append(typed, float64(x))
			}
		default: // int32_data carries the bits of the narrow types
			words = c.intList(words, w, fieldNames[f])
		}
	})
	if err != nil {
		return nil, err
	}
	if raw != nil {
		return floatsOf(raw, t.DType, n), nil
	}
	if words != nil {
		words, err = typedInts(t, words, n)
		if err != nil {
			return nil, err
		}
		for _, w := range words {
			typed = append(typed, floatBits(uint64(w), t.DType))
		}
	}
	if len(typed) != n {
		return nil, countError(t, len(typed), n)
	}
	return nonNil(typed), nil
}

func nonNil[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

func countError(t *Tensor, got, want int) error {
	return fmt.Errorf("tensor %q of %s %s has %d elements of data, want %d", t.Name, t.DType, dimsString(t.Dims), got,
		want)
}

// elements reads a tensor's payload: raw when it is raw_data or external,
// otherwise by calling typed for each field that carries elements. n is the
// number of elements; a tensor without any has an empty raw payload.
func (m *Model) elements(t *Tensor, typed func(c *cursor, f uint32, w uint8)) (raw []byte, n int, err error) {
	count, err := t.Elements()
	if err != nil {
		return nil, 0, err
	}
	if count == 0 {
		return []byte{}, 0, nil
	}
	size, err := t.Bytes()
	if err != nil {
		return nil, 0, err
	}
	p := &t.payload
	limit := m.constLimit()
	// Types below 8 bits and varints unfold: what is allocated follows the limit all the same.
	if size > limit || count > 8*limit || p.field != fieldRaw && p.size > 10*limit {
		return nil, 0, fmt.Errorf("tensor %q of %d bytes, where %d are read: %w", t.Name, max(size, p.size), limit,
			ErrTooLarge)
	}
	if t.External != nil && p.size == 0 {
		raw, err = m.external(t, size)
		return raw, int(count), err
	}
	if p.field == 0 || p.size == 0 {
		return nil, 0, fmt.Errorf("tensor %q: %w: the file has none for it", t.Name, ErrNoData)
	}
	lim := Limits{}.withDefaults()
	c := &cursor{maxDepth: lim.Depth, limit: lim.Bytes, budget: lim.Bytes, chunk: windowSize}
	switch {
	case m.data == nil:
		return nil, 0, fmt.Errorf("tensor %q: %w", t.Name, ErrNoData)
	case !p.dropped:
		c.buf, c.size, c.end = m.data.kept[p.off:p.end:p.end], p.end-p.off, p.end-p.off
	case m.data.r == nil:
		return nil, 0, fmt.Errorf("tensor %q: %w: its %d bytes were passed over in the stream", t.Name, ErrNoData, p.size)
	default:
		c.src, c.size, c.base, c.end = m.data.r, m.data.size, p.off, p.end
		c.buf = make([]byte, 0, min(max(p.end-p.off, 32), windowSize))
	}
	for c.more() {
		f, w := c.tag()
		switch {
		case f != p.field:
			c.skipField(w)
		case f == fieldRaw:
			raw = slices.Clone(c.bytes(c.length(w, fieldNames[f])))
		default:
			typed(c, f, w)
		}
	}
	if c.err != nil {
		return nil, 0, fmt.Errorf("tensor %q: %w", t.Name, c.err)
	}
	if p.field == fieldRaw && int64(len(raw)) != size {
		return nil, 0, fmt.Errorf("tensor %q: %d bytes, want %d", t.Name, len(raw), size)
	}
	return raw, int(count), nil
}

// typedInts checks and cuts what int32_data and the like carry: a number an
// element, save for types below 8 bits, of which a byte's worth shares a number.
func typedInts(t *Tensor, words []int64, n int) ([]int64, error) {
	bits := t.DType.Bits()
	want := n
	if bits < 8 {
		want = (n*int(bits) + 7) / 8
	}
	if len(words) != want {
		return nil, countError(t, len(words), want)
	}
	if bits < 8 {
		raw := make([]byte, len(words))
		for i, w := range words {
			raw[i] = byte(w)
		}
		if t.DType == Float4E2M1 {
			out := make([]int64, n)
			for i := range out {
				out[i] = int64(raw[i/2] >> (i % 2 * 4) & 15)
			}
			return out, nil
		}
		return intsOf(raw, t.DType, n), nil
	}
	for i, w := range words { // each holds its type's bits, however the writer extended the sign
		switch t.DType {
		case Int8:
			words[i] = int64(int8(w))
		case Uint8:
			words[i] = int64(uint8(w))
		case Int16:
			words[i] = int64(int16(w))
		case Uint16, Float16, BFloat16:
			words[i] = int64(uint16(w))
		case Int32:
			words[i] = int64(int32(w))
		case Uint32:
			words[i] = int64(uint32(w))
		case Bool:
			if w != 0 {
				words[i] = 1
			}
		}
	}
	return words, nil
}

// intsOf decodes raw_data: little-endian, types below 8 bits packed from the low bits on.
func intsOf(raw []byte, t DType, n int) []int64 {
	out := make([]int64, n)
	le := binary.LittleEndian
	for i := range out {
		switch t {
		case Bool:
			if raw[i] != 0 {
				out[i] = 1
			}
		case Uint8:
			out[i] = int64(raw[i])
		case Int8:
			out[i] = int64(int8(raw[i]))
		case Uint16:
			out[i] = int64(le.Uint16(raw[2*i:]))
		case Int16:
			out[i] = int64(int16(le.Uint16(raw[2*i:])))
		case Uint32:
			out[i] = int64(le.Uint32(raw[4*i:]))
		case Int32:
			out[i] = int64(int32(le.Uint32(raw[4*i:])))
		case Uint64, Int64:
			out[i] = int64(le.Uint64(raw[8*i:]))
		case Uint4:
			out[i] = int64(raw[i/2] >> (i % 2 * 4) & 15)
		case Int4:
			out[i] = int64(int8(raw[i/2]>>(i%2*4)<<4) >> 4)
		case Uint2:
			out[i] = int64(raw[i/4] >> (i % 4 * 2) & 3)
		case Int2:
			out[i] = int64(int8(raw[i/4]>>(i%4*2)<<6) >> 6)
		}
	}
	return out
}

func floatsOf(raw []byte, t DType, n int) []float64 {
	out := make([]float64, n)
	le := binary.LittleEndian
	for i := range out {
		var b uint64
		switch t.Bits() {
		case 64:
			b = le.Uint64(raw[8*i:])
		case 32:
			b = uint64(le.Uint32(raw[4*i:]))
		case 16:
			b = uint64(le.Uint16(raw[2*i:]))
		case 8:
			b = uint64(raw[i])
		case 4:
			b = uint64(raw[i/2] >> (i % 2 * 4) & 15)
		}
		out[i] = floatBits(b, t)
	}
	return out
}

// densify puts a sparse tensor's values in their places.
func densify[T any](m *Model, t *Tensor, read func(*Model, *Tensor) ([]T, error)) ([]T, error) {
	n, err := t.Elements()
	if err != nil {
		return nil, err
	}
	size, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	if limit := m.constLimit(); size > limit || n > limit {
		return nil, fmt.Errorf("tensor %q of %d bytes, where %d are read: %w", t.Name, size, limit, ErrTooLarge)
	}
	out := make([]T, n)
	if t.Sparse.Indices == nil {
		return out, nil
	}
	values, err := read(m, t.Sparse.Values)
	if err != nil {
		return nil, err
	}
	at, err := m.Ints(t.Sparse.Indices)
	if err != nil {
		return nil, err
	}
	rank := 0 // coordinates an index has; 0: it is linear
	if len(t.Sparse.Indices.Dims) == 2 {
		rank = len(t.Dims)
	}
	for i, v := range values {
		k := int64(0)
		if rank == 0 && len(t.Sparse.Indices.Dims) == 1 {
			k = at[i]
		}
		for j := range rank {
			x := at[i*rank+j]
			if x < 0 || x >= t.Dims[j] {
				return nil, fmt.Errorf("sparse tensor %q: index %d is outside dim %d of %d", t.Name, x, j, t.Dims[j])
			}
			k = k*t.Dims[j] + x
		}
		if k < 0 || k >= n {
			return nil, fmt.Errorf("sparse tensor %q: index %d is outside its %d elements", t.Name, k, n)
		}
		out[k] = v
	}
	return out, nil
}

func (m *Model) constLimit() int64 {
	if m.data == nil {
		return Limits{}.withDefaults().Const
	}
	return m.data.lim.Const
}
