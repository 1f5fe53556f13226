package snapshot

import (
	"encoding/binary"
	"math"
)

// get pushes memo entry i. What was taken apart is no value any more.
func (m *machine) get(i uint32) error {
	if int64(i) >= int64(len(m.memo)) {
		return m.fail("asks for memo entry %d of %d", i, len(m.memo))
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
		return m.fail("memo entry %d is empty, or an event, block or segment that was used already", i)
	}
	m.stack = append(m.stack, v)
	return nil
}

// put stores the top of the stack in memo entry i. Pickles number their
// entries without gaps, or with few: an entry beyond the bytes read is refused.
func (m *machine) put(i int) error {
	if len(m.stack) <= m.floor() {
		return m.fail("memoizes an empty stack")
	}
	if int64(i) >= m.in.offset() || i >= memoMax {
		return m.fail("memo entry %d is out of reach", i)
	}
	v := m.stack[len(m.stack)-1]
	p, ok := pack(v)
	if !ok {
		return m.fail("memoizes a number, wanted a string or a container")
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
	return nil
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
func (m *machine) long(n int64) error {
	if n < 0 || n > maxLong {
		return m.fail("an integer of %d bytes", n)
	}
	b, err := m.in.text(n)
	if err != nil {
		return err
	}
	// Bytes that only repeat the sign say nothing.
	for len(b) > 8 && (b[len(b)-1] == 0 && b[len(b)-2] < 0x80 || b[len(b)-1] == 0xff && b[len(b)-2] >= 0x80) {
		b = b[:len(b)-1]
	}
	switch {
	case len(b) == 9 && b[8] == 0:
		m.push(kUint, int64(binary.LittleEndian.Uint64(b)))
		return nil
	case len(b) > 8:
		m.push(kOther, 0)
		return nil
	}
	var u uint64
	for i, c := range b {
		u |= uint64(c) << (8 * i)
	}
	if k := len(b); k > 0 && k < 8 && b[k-1] >= 0x80 {
		u |= math.MaxUint64 << (8 * k)
	}
	m.push(kInt, int64(u))
	return nil
}

func (m *machine) text(n uint64) error {
	if n > maxString {
		return m.fail("a string of %d bytes, more than %d", n, maxString)
	}
	b, err := m.in.text(int64(n))
	if err != nil {
		return err
	}
	id, err := m.intern(b)
	if err != nil {
		return err
	}
	m.push(kString, int64(id))
	return nil
}

func (m *machine) intern(b []byte) (uint32, error) {
	if id, ok := m.ids[string(b)]; ok {
		return id, nil
	}
	if len(m.strings) >= memoMax {
		return 0, m.fail("more than %d strings", memoMax)
	}
	m.textBytes += costString + int64(len(b))
	s, id := string(b), uint32(len(m.strings))
	m.strings = append(m.strings, s)
	m.ids[s] = id
	return id, nil
}

func (m *machine) frame(n uint64) error {
	if m.protocol < 4 {
		return m.fail("a FRAME in protocol %d", m.protocol)
	}
	at := m.in.offset()
	if at < m.frameEnd {
		return m.fail("a frame within a frame")
	}
	if n > uint64(m.in.max) {
		return m.fail("a frame of %d bytes", n)
	}
	m.frameEnd = at + int64(n)
	return nil
}
