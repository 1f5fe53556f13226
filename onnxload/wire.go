package onnxload

import (
	"errors"
	"fmt"
	"io"
	"math"
)

// Protobuf wire types.
const (
	wireVarint = 0
	wireI64    = 1
	wireLen    = 2
	wireGroup  = 3
	wireEnd    = 4
	wireI32    = 5
)

const (
	windowSize  = 64 << 10
	seekSize    = 4 << 10   // first read after a jump: most likely only a few headers are wanted
	unknownSize = 1<<63 - 1 // end of a stream before it is reached
)

// A cursor walks protobuf messages through a small window on a file or a stream.
// Payloads are skipped by their length, so they are not read from a file at all.
//
// Errors stick: after the first one every method returns zero values, and more
// returns false, so that message loops need no checks of their own.
type cursor struct {
	src    io.ReaderAt // a file; or
	stream io.Reader   // a stream, read once

	buf   []byte // the window
	pos   int    // next byte in buf
	base  int64  // offset of buf[0]
	end   int64  // offset where the current message ends
	size  int64  // offset where the input ends; unknownSize for a stream that has not ended
	chunk int    // bytes to ask for at the next fill

	depth, maxDepth int
	limit, budget   int64 // bytes that may be looked at: in all, and still
	unknown         int64 // bytes of fields that ONNX does not define
	tagAt           int64 // offset of the last tag
	err             error
}

func (c *cursor) off() int64 { return c.base + int64(c.pos) }

func (c *cursor) fail(at int64, format string, args ...any) {
	if c.err == nil {
		c.err = &WireError{Offset: at, Msg: fmt.Sprintf(format, args...)}
	}
}

// refuse makes err stick.
func (c *cursor) refuse(err error) {
	if c.err == nil {
		c.err = err
	}
}

// fill brings at least n unread bytes into the window, n <= cap(buf). It
// returns false at the end of the input, with fewer bytes in the window.
func (c *cursor) fill(n int) bool {
	if c.err != nil {
		return false
	}
	if c.pos > 0 {
		k := copy(c.buf[:cap(c.buf)], c.buf[c.pos:])
		c.buf = c.buf[:k]
		c.base += int64(c.pos)
		c.pos = 0
	}
	for idle := 0; len(c.buf) < n; {
		have := len(c.buf)
		at := c.base + int64(have)
		want := min(max(n-have, c.chunk), cap(c.buf)-have)
		c.chunk = min(2*c.chunk, cap(c.buf))
		var k int
		var err error
		if c.stream != nil {
			k, err = c.stream.Read(c.buf[have : have+want])
		} else {
			want = int(min(int64(want), c.size-at))
			if want <= 0 {
				return false
			}
			k, err = c.src.ReadAt(c.buf[have:have+want], at)
		}
		if k < 0 || k > want {
			k = 0
			err = errors.New("reader returned an impossible count")
		}
		c.buf = c.buf[:have+k]
		if c.budget -= int64(k); c.budget < 0 {
			c.refuse(fmt.Errorf("byte %d: more than %d bytes that are not weights, which is the limit", at, c.limit))
			return false
		}
		if k > 0 && len(c.buf) >= n {
			return true
		}
		if k > 0 {
			idle = 0
		} else if idle++; idle > 100 && err == nil {
			err = io.ErrNoProgress
		}
		if err == io.EOF || k == 0 && err == nil && c.stream == nil {
			if c.size != unknownSize {
				c.fail(c.base+int64(len(c.buf)), "the file ends here, but was %d bytes when opened: it changed while being read",
					c.size)
				return false
			}
			c.size = c.base + int64(len(c.buf))
			if c.end == unknownSize {
				c.end = c.size
			}
			return false
		}
		if err != nil {
			c.refuse(fmt.Errorf("byte %d: %w", at+int64(k), err))
			return false
		}
	}
	return true
}

// more reports whether the current message has bytes left.
func (c *cursor) more() bool {
	if c.err != nil {
		return false
	}
	off := c.off()
	if off < c.end {
		if c.end != unknownSize || c.pos < len(c.buf) {
			return true
		}
		return c.fill(1)
	}
	if off > c.end {
		c.fail(off, "a field runs past the end of its message at byte %d", c.end)
	}
	return false
}

// byte returns the next byte of the current message.
func (c *cursor) byte() byte {
	if c.pos >= len(c.buf) && !c.fill(1) {
		c.truncated(1)
		return 0
	}
	b := c.buf[c.pos]
	c.pos++
	return b
}

func (c *cursor) truncated(need uint64) {
	c.fail(c.off(), "the input ends here, where %d more bytes were announced: truncated?", need)
}

func (c *cursor) varint() uint64 {
	if c.pos < len(c.buf) && c.buf[c.pos] < 0x80 { // most are one byte
		v := c.buf[c.pos]
		c.pos++
		return uint64(v)
	}
	if c.pos+1 < len(c.buf) && c.buf[c.pos+1] < 0x80 && c.off()+2 <= c.end { // lengths of nodes are two
		v := uint64(c.buf[c.pos]&0x7f) | uint64(c.buf[c.pos+1])<<7
		c.pos += 2
		return v
	}
	start := c.off()
	var v uint64
	for shift := 0; shift < 70; shift += 7 {
		b := c.byte()
		if c.err != nil {
			return 0
		}
		if shift == 63 && b > 1 {
			c.fail(start, "varint larger than 64 bits")
			return 0
		}
		v |= uint64(b&0x7f) << shift
		if b < 0x80 {
			if c.off() > c.end {
				c.fail(start, "varint runs past the end of its message at byte %d", c.end)
				return 0
			}
			return v
		}
	}
	c.fail(start, "varint longer than 10 bytes")
	return 0
}

// tag reads a field's number and wire type.
func (c *cursor) tag() (field uint32, wire uint8) {
	c.tagAt = c.off()
	v := c.varint()
	if c.err != nil {
		return 0, 0
	}
	wire = uint8(v & 7)
	switch {
	case v>>3 == 0:
		c.fail(c.tagAt, "field number 0, which protobuf does not allow: damaged, or not an ONNX model")
	case v>>3 > 1<<29-1:
		c.fail(c.tagAt, "field number %d, where protobuf allows at most %d: damaged, or not an ONNX model", v>>3, 1<<29-1)
	case wire > wireI32:
		c.fail(c.tagAt, "wire type %d, which protobuf does not have: damaged, or not an ONNX model", wire)
	case wire == wireEnd:
		c.fail(c.tagAt, "end of a group that was not begun")
	case wire == wireGroup:
		c.fail(c.tagAt, "field %d is a protobuf group, which ONNX does not use", v>>3)
	}
	return uint32(v >> 3), wire
}

// expect checks the wire type of the field that tag just read.
func (c *cursor) expect(wire, want uint8, name string) bool {
	if c.err != nil {
		return false
	}
	if wire != want {
		c.fail(c.tagAt, "%s has wire type %d, want %d", name, wire, want)
		return false
	}
	return true
}

func (c *cursor) uint(wire uint8, name string) uint64 {
	if !c.expect(wire, wireVarint, name) {
		return 0
	}
	return c.varint()
}

func (c *cursor) int(wire uint8, name string) int64 { return int64(c.uint(wire, name)) }

func (c *cursor) fixed32() uint32 {
	if c.end-c.off() < 4 {
		c.fail(c.off(), "4-byte value runs past the end of its message at byte %d", c.end)
		return 0
	}
	if len(c.buf)-c.pos < 4 && !c.fill(4) {
		c.truncated(4)
		return 0
	}
	b := c.buf[c.pos:]
	c.pos += 4
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func (c *cursor) fixed64() uint64 {
	lo := c.fixed32()
	hi := c.fixed32()
	return uint64(hi)<<32 | uint64(lo)
}

func (c *cursor) float(wire uint8, name string) float32 {
	if !c.expect(wire, wireI32, name) {
		return 0
	}
	return math.Float32frombits(c.fixed32())
}

// length reads the length of a length-delimited field and checks it against
// what is left of the message.
func (c *cursor) length(wire uint8, name string) int64 {
	if !c.expect(wire, wireLen, name) {
		return 0
	}
	at := c.off()
	n := c.varint()
	if c.err != nil {
		return 0
	}
	if left := c.end - c.off(); left < 0 || n > uint64(left) {
		if c.end == c.size {
			c.fail(at, "%s of %d bytes, where the file has %d bytes left: truncated?", name, n, max(left, 0))
		} else {
			c.fail(at, "%s of %d bytes, where its message has %d bytes left", name, n, max(left, 0))
		}
		return 0
	}
	return int64(n)
}

// enter begins a message within the message; leave ends it with what enter returned.
func (c *cursor) enter(wire uint8, name string) (outer int64) {
	n := c.length(wire, name)
	outer = c.end
	if c.err != nil {
		return outer
	}
	if c.depth++; c.depth > c.maxDepth {
		c.fail(c.tagAt, "nesting deeper than %d", c.maxDepth)
		return outer
	}
	c.end = c.off() + n
	return outer
}

func (c *cursor) leave(outer int64) {
	if c.err != nil {
		return
	}
	c.depth--
	if outer == unknownSize { // the stream may have ended meanwhile
		outer = c.size
	}
	c.end = outer
}

// bytes returns the n bytes of a field whose length was just read. They are
// valid until the next call.
func (c *cursor) bytes(n int64) []byte {
	if c.err != nil || n == 0 {
		return nil
	}
	if n <= int64(cap(c.buf)) {
		if int64(len(c.buf)-c.pos) < n && !c.fill(int(n)) {
			c.truncated(uint64(n))
			return nil
		}
		b := c.buf[c.pos : c.pos+int(n)]
		c.pos += int(n)
		return b
	}
	// Grow by what was really there: a length is only a claim.
	var out []byte
	for n > 0 {
		if c.pos >= len(c.buf) && !c.fill(1) {
			c.truncated(uint64(n))
			return nil
		}
		k := int(min(n, int64(len(c.buf)-c.pos)))
		out = append(out, c.buf[c.pos:c.pos+k]...)
		c.pos += k
		n -= int64(k)
	}
	return out
}

// message returns the rest of the current message when it is short enough for a memo, else nil. It stays valid
// until the end of the message.
func (c *cursor) message() []byte {
	n := c.end - c.off()
	if c.err != nil || n <= 0 || n > maxMemo || int64(len(c.buf)-c.pos) < n && !c.fill(int(n)) {
		return nil
	}
	return c.buf[c.pos : c.pos+int(n)]
}
