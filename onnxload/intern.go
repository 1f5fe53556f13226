package onnxload

import "strings"

// A table numbers distinct strings from 0 on.
type table struct {
	strs []string
	ids  map[string]int32
	text *text
}

func newTable(t *text) *table { return &table{ids: map[string]int32{}, text: t} }

// newNames is a table for names of values, in which the empty one, which is never looked for, has the number of
// NoValue.
func newNames(t *text) *table {
	names := newTable(t)
	names.strs = []string{""}
	return names
}

// id returns the number of b, a new one when it was not seen before.
func (t *table) id(b []byte) int32 {
	id, ok := t.ids[string(b)]
	if !ok {
		id = int32(len(t.strs))
		t.strs = append(t.strs, t.text.keep(b))
		t.ids[t.strs[id]] = id
	}
	return id
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
	if id, ok := t.ids[string(b)]; ok {
		return id
	}
	return -1
}

// expect makes room for n strings, so that growing need not throw tables away.
func (t *table) expect(n int) {
	if len(t.ids) == 0 {
		t.ids = make(map[string]int32, n)
		t.strs = append(make([]string, 0, n+len(t.strs)), t.strs...)
	}
}

// str returns the one copy of b.
func (t *table) str(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return t.strs[t.id(b)]
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
