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
// than Limits.Const. Elements below 8 bits and sparse tensors, which decide no shape, are not read.
func (m *Model) Ints(t *Tensor) ([]int64, error) {
	if !t.HasInts() {
		return nil, fmt.Errorf("tensor %q of %s has no integers that are read", t.Name, t.DType)
	}
	if t.made != nil {
		return slices.Clone(t.made), nil
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

// HasInts reports whether Ints reads elements of the tensor's type.
func (t *Tensor) HasInts() bool {
	return (t.DType.IsInt() || t.DType == Bool) && t.DType.Bits() >= 8 && t.Sparse == nil
}

// HasFloats reports whether Floats reads elements of the tensor's type: of at least 16 bits.
func (t *Tensor) HasFloats() bool {
	return t.DType.IsFloat() && t.DType.Bits() >= 16 && t.Sparse == nil
}

// Floats returns the elements of a small floating-point tensor in row-major order. Errors are as for Ints.
func (m *Model) Floats(t *Tensor) ([]float64, error) {
	if !t.HasFloats() {
		return nil, fmt.Errorf("tensor %q of %s has no floating-point numbers that are read", t.Name, t.DType)
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
		default: // int32_data carries the bits of types of 16
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
	// Varints unfold: what is allocated follows the limit all the same.
	if size > limit || p.field != fieldRaw && p.size > 10*limit {
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

// typedInts checks what int32_data and the like carry: a number an element.
func typedInts(t *Tensor, words []int64, n int) ([]int64, error) {
	if len(words) != n {
		return nil, countError(t, len(words), n)
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

// intsOf decodes raw_data: little-endian.
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
		}
		out[i] = floatBits(b, t)
	}
	return out
}

func (m *Model) constLimit() int64 {
	if m.data == nil {
		return Limits{}.withDefaults().Const
	}
	return m.data.lim.Const
}
