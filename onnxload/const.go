package onnxload

import (
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
	bits, err := m.elements(t)
	if err != nil {
		return nil, err
	}
	out := make([]int64, len(bits))
	for i, b := range bits {
		out[i] = intOf(b, t.DType)
	}
	return out, nil
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
	bits, err := m.elements(t)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(bits))
	for i, b := range bits {
		out[i] = floatOf(b, t.DType)
	}
	return out, nil
}

// elements reads the bits of a tensor's elements.
func (m *Model) elements(t *Tensor) ([]uint64, error) {
	count, err := t.Elements()
	if err != nil || count == 0 {
		return nil, err
	}
	size, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	p := &t.payload
	if m.data == nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, ErrNoData)
	}
	limit := m.data.lim.Const
	// Varints unfold: what is allocated follows the limit all the same.
	if size > limit || p.field != fieldRaw && p.size > 10*limit {
		return nil, fmt.Errorf("tensor %q of %d bytes, where %d are read: %w", t.Name, max(size, p.size), limit,
			ErrTooLarge)
	}
	if t.External != nil && p.size == 0 {
		raw, err := m.external(t, size)
		return rawBits(raw, t.DType), err
	}
	if p.field == 0 || p.size == 0 {
		return nil, fmt.Errorf("tensor %q: %w: the file has none for it", t.Name, ErrNoData)
	}
	lim := Limits{}.withDefaults()
	c := &cursor{maxDepth: lim.Depth, limit: lim.Bytes, budget: lim.Bytes, chunk: windowSize}
	switch {
	case !p.dropped:
		c.buf, c.size, c.end = m.data.kept[p.off:p.end:p.end], p.end-p.off, p.end-p.off
	case m.data.r == nil:
		return nil, fmt.Errorf("tensor %q: %w: its %d bytes were passed over in the stream", t.Name, ErrNoData, p.size)
	default:
		c.src, c.size, c.base, c.end = m.data.r, m.data.size, p.off, p.end
		c.buf = make([]byte, 0, min(max(p.end-p.off, 32), windowSize))
	}
	var bits []uint64
	for c.more() {
		f, w := c.tag()
		switch {
		case f != p.field:
			c.skipField(w)
		case f == fieldRaw:
			bits = rawBits(c.bytes(c.length(w, fieldNames[f])), t.DType)
		default:
			bits = c.typedBits(bits, f, w)
		}
	}
	if c.err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, c.err)
	}
	if int64(len(bits)) != count {
		return nil, fmt.Errorf("tensor %q of %s %s has %d elements of data, want %d", t.Name, t.DType, dimsString(t.Dims),
			len(bits), count)
	}
	return bits, nil
}

// rawBits takes raw_data apart: little-endian.
func rawBits(raw []byte, t DType) (bits []uint64) {
	for element := range slices.Chunk(raw, int(t.Bits()/8)) {
		b := uint64(0)
		for k, c := range element {
			b |= uint64(c) << (8 * k)
		}
		bits = append(bits, b)
	}
	return bits
}

// typedBits appends the elements of a repeated field, packed or not.
func (c *cursor) typedBits(bits []uint64, field uint32, wire uint8) []uint64 {
	one := c.varint
	switch field {
	case fieldFloat:
		one = func() uint64 { return uint64(c.fixed32()) }
	case fieldDouble:
		one = c.fixed64
	}
	if wire != wireLen {
		return append(bits, one())
	}
	outer := c.enter(wire, fieldNames[field])
	for c.more() {
		bits = append(bits, one())
	}
	c.leave(outer)
	return bits
}

// intOf returns the value of an element's bits, however the writer of int32_data extended the sign.
func intOf(b uint64, t DType) int64 {
	above := 64 - t.Bits()
	switch t {
	case Bool:
		if b != 0 {
			return 1
		}
	case Int8, Int16, Int32:
		return int64(b<<above) >> above
	}
	return int64(b << above >> above)
}

// floatOf returns the value of an element's bits.
func floatOf(b uint64, t DType) float64 {
	switch t {
	case Float64:
		return math.Float64frombits(b)
	case Float32:
		return float64(math.Float32frombits(uint32(b)))
	case BFloat16:
		return float64(math.Float32frombits(uint32(b) << 16))
	}
	// float16: a sign, 5 bits of exponent, 10 of the fraction
	sign, exp, fraction := 1-2*float64(b>>15&1), int(b>>10&31), float64(b&1023)
	switch {
	case exp == 0:
		return sign * math.Ldexp(fraction, -24)
	case exp < 31:
		return sign * math.Ldexp(1024+fraction, exp-25)
	case fraction > 0:
		return math.NaN()
	}
	return math.Inf(int(sign))
}
