package snapshot

import (
	"encoding/binary"
	"math"
)

// get pushes memo entry i. What was taken apart is no value any more.
func (m *machine) get(i uint32) {
	if int64(i) >= int64(len(m.memo)) {
		m.fail("asks for memo entry %d of %d", i, len(m.memo))
	}
	p := m.memo[i]
	v := value{int64(p & memoMax), memoKinds[p>>memoBits]}
	if v.kind == kObject {
		o := &m.objects[v.n]
		if o.done {
			v = o.alias
		}
		o.got = true
	}
	if v.kind == kGone {
		m.fail("memo entry %d is empty, or an event, block or segment that was used already", i)
	}
	m.stack = append(m.stack, v)
}

// put stores the top of the stack in memo entry i. Pickles number their
// entries without gaps, or with few: an entry beyond the bytes read is refused.
func (m *machine) put(i int) {
	if len(m.stack) <= m.floor() {
		m.fail("memoizes an empty stack")
	}
	if int64(i) >= m.in.offset() || i >= memoMax {
		m.fail("memo entry %d is out of reach", i)
	}
	v := m.stack[len(m.stack)-1]
	p, ok := pack(v)
	if !ok {
		m.fail("memoizes a number, wanted a string or a container")
	}
	for i > len(m.memo) {
		m.memo = append(m.memo, 0)
	}
	if i == len(m.memo) {
		m.memo = append(m.memo, p)
	} else {
		m.memo[i] = p
	}
	if v.kind == kObject {
		o := &m.objects[v.n]
		o.memo = uint32(i)
		o.puts = min(o.puts+1, 2)
	}
}

func pack(v value) (uint32, bool) {
	for tag, k := range memoKinds {
		if k == v.kind && k != kGone {
			return uint32(tag)<<memoBits | uint32(v.n), v.n <= memoMax
		}
	}
	return 0, false
}

// long pushes the integer of n little endian bytes.
func (m *machine) long(n int64) {
	if n < 0 || n > maxLong {
		m.fail("an integer of %d bytes", n)
	}
	b := m.in.text(n)
	// Bytes that only repeat the sign say nothing.
	for len(b) > 8 && (b[len(b)-1] == 0 && b[len(b)-2] < 0x80 || b[len(b)-1] == 0xff && b[len(b)-2] >= 0x80) {
		b = b[:len(b)-1]
	}
	switch {
	case len(b) == 9 && b[8] == 0:
		m.push(kUint, int64(binary.LittleEndian.Uint64(b)))
		return
	case len(b) > 8:
		m.push(kOther, 0)
		return
	}
	var u uint64
	for i, c := range b {
		u |= uint64(c) << (8 * i)
	}
	if k := len(b); k > 0 && k < 8 && b[k-1] >= 0x80 {
		u |= math.MaxUint64 << (8 * k)
	}
	m.push(kInt, int64(u))
}

func (m *machine) text(n uint64) {
	if n > maxString {
		m.fail("a string of %d bytes, more than %d", n, maxString)
	}
	m.push(kString, int64(m.intern(m.in.text(int64(n)))))
}

func (m *machine) intern(b []byte) uint32 {
	if id, ok := m.ids[string(b)]; ok {
		return id
	}
	if len(m.strings) >= memoMax {
		m.fail("more than %d strings", memoMax)
	}
	m.textBytes += costString + int64(len(b))
	s, id := string(b), uint32(len(m.strings))
	m.strings = append(m.strings, s)
	m.ids[s] = id
	return id
}

func (m *machine) frame(n uint64) {
	if m.protocol < 4 {
		m.fail("a FRAME in protocol %d", m.protocol)
	}
	at := m.in.offset()
	if at < m.frameEnd {
		m.fail("a frame within a frame")
	}
	if n > uint64(m.in.max) {
		m.fail("a frame of %d bytes", n)
	}
	m.frameEnd = at + int64(n)
}
