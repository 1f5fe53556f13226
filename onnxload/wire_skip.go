package onnxload

// skip jumps over the next n bytes, which length has checked to be in the message.
func (c *cursor) skip(n int64) {
	if c.err != nil {
		return
	}
	if n <= int64(len(c.buf)-c.pos) {
		c.pos += int(n)
		return
	}
	if c.stream == nil {
		c.base = c.off() + n
		c.buf = c.buf[:0]
		c.pos = 0
		c.chunk = seekSize
		return
	}
	for n > 0 {
		if c.pos >= len(c.buf) && !c.fill(1) {
			c.truncated(uint64(n))
			return
		}
		k := min(n, int64(len(c.buf)-c.pos))
		c.pos += int(k)
		c.budget += k // skipped, not looked at
		n -= k
	}
}

// skipField skips the value of the field that tag just read.
func (c *cursor) skipField(wire uint8) {
	switch wire {
	case wireVarint:
		c.varint()
	case wireI64:
		c.fixed64()
	case wireI32:
		c.fixed32()
	case wireLen:
		c.skip(c.length(wire, "field"))
	}
}

// skipUnknown skips a field that ONNX does not define and counts its bytes.
func (c *cursor) skipUnknown(wire uint8) {
	at := c.tagAt
	c.skipField(wire)
	if c.err == nil {
		c.unknown += c.off() - at
	}
}

// seek goes back to an offset of a file.
func (c *cursor) seek(at int64) {
	if at >= c.base && at <= c.base+int64(len(c.buf)) {
		c.pos = int(at - c.base)
		return
	}
	c.base = at
	c.buf = c.buf[:0]
	c.pos = 0
	c.chunk = cap(c.buf)
}
