package onnxload

import (
	"hash/maphash"
	"slices"
	"strings"
)

// A table numbers distinct strings from 0 on. It is an open hash, which takes a
// third of a map's memory.
type table struct {
	strs []string
	slot []slot
	seed maphash.Seed
	text *text
}

// A slot holds a string's number and half of its hash, so that a probe need not
// look at strings that differ.
type slot struct {
	hash uint32
	next int32 // index into strs + 1; 0: the slot is free
}

func newTable(t *text) *table { return &table{seed: maphash.MakeSeed(), text: t} }

// newNames is a table for names of values, in which the empty one, which is never looked for, has the number of
// NoValue.
func newNames(t *text) *table {
	names := newTable(t)
	names.strs = []string{""}
	return names
}

// id returns the number of b, a new one when it was not seen before.
func (t *table) id(b []byte) int32 {
	if 8*len(t.strs) >= 7*len(t.slot) {
		t.grow()
	}
	mask := uint32(len(t.slot) - 1)
	hash := uint32(maphash.Bytes(t.seed, b))
	for i := hash & mask; ; i = (i + 1) & mask {
		s := &t.slot[i]
		if s.next == 0 {
			t.strs = append(t.strs, t.text.keep(b))
			*s = slot{hash, int32(len(t.strs))}
			return s.next - 1
		}
		if s.hash == hash && t.strs[s.next-1] == string(b) {
			return s.next - 1
		}
	}
}

// idNear is id for a string that is likely one of those numbered from on: lists of values are in much the same order as
// the nodes that use them, and a node reads what the last one made. That saves a search.
func (t *table) idNear(b []byte, from int32) int32 {
	for k := max(from, 0); k < from+4 && int(k) < len(t.strs); k++ {
		if t.strs[k] == string(b) {
			return k
		}
	}
	return t.id(b)
}

// find returns the number of b, or -1 when it was not seen before.
func (t *table) find(b []byte) int32 {
	if len(t.slot) == 0 {
		return -1
	}
	mask := uint32(len(t.slot) - 1)
	hash := uint32(maphash.Bytes(t.seed, b))
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slot[i]
		if s.next == 0 {
			return -1
		}
		if s.hash == hash && t.strs[s.next-1] == string(b) {
			return s.next - 1
		}
	}
}

func (t *table) has(str string) bool { return t.find([]byte(str)) >= 0 }

// expect makes room for n strings, so that growing need not throw tables away.
func (t *table) expect(n int) {
	if len(t.slot) > 0 {
		return
	}
	slots := 16
	for 7*slots < 8*n {
		slots *= 2
	}
	t.slot = make([]slot, slots)
	t.strs = append(make([]string, 0, n+len(t.strs)), t.strs...)
}

// str returns the one copy of b.
func (t *table) str(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return t.strs[t.id(b)]
}

func (t *table) grow() {
	old := t.slot
	t.slot = make([]slot, max(16, 2*len(old)))
	t.strs = slices.Grow(t.strs, 7*len(t.slot)/8-len(t.strs))
	mask := uint32(len(t.slot) - 1)
	for _, s := range old {
		if s.next == 0 {
			continue
		}
		i := s.hash & mask
		for t.slot[i].next != 0 {
			i = (i + 1) & mask
		}
		t.slot[i] = s
	}
}

// A memo keeps what short messages were decoded to, by their bytes: a graph has few different attributes and types.
type memo[T any] struct {
	table
	of []T
}

// maxMemo is the longest message that is looked up in a memo, in bytes. Longer ones are tensors and tables, of which
// there are few alike.
const maxMemo = 128

func newMemo[T any](t *text) memo[T] { return memo[T]{table: *newTable(t)} }

// add notes what b, which is not in the memo, was decoded to, and returns its number.
func (m *memo[T]) add(b []byte, v T) int32 {
	m.of = append(m.of, v)
	return m.id(b)
}

// A text keeps many short strings in few allocations.
type text struct{ b *strings.Builder }

const textBlock = 16 << 10

func (t *text) keep(s []byte) string {
	if len(s) == 0 {
		return ""
	}
	if len(s) > textBlock/8 {
		return string(s)
	}
	if t.b == nil || t.b.Cap()-t.b.Len() < len(s) {
		t.b = &strings.Builder{}
		t.b.Grow(textBlock)
	}
	n := t.b.Len()
	t.b.Write(s)
	return t.b.String()[n:]
}

// A pool hands out short slices from larger blocks, so that a graph of many
// nodes is few allocations.
type pool[T any] struct {
	free []T
	next int
}

// take returns a slice of n zero elements that nothing else will append into.
func (p *pool[T]) take(n int) []T {
	if n == 0 {
		return nil
	}
	if n > len(p.free) {
		p.next = min(max(2*p.next, 16), 1024)
		if n >= p.next/4 {
			return make([]T, n)
		}
		p.free = make([]T, p.next)
	}
	s := p.free[:n:n]
	p.free = p.free[n:]
	return s
}

// copy returns a pooled copy of s.
func (p *pool[T]) copy(s []T) []T {
	if len(s) == 0 {
		return nil
	}
	d := p.take(len(s))
	copy(d, s)
	return d
}

// one returns a pointer to a zero element.
func (p *pool[T]) one() *T { return &p.take(1)[0] }
