package caching

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSet(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var s set
	var want []entry
	for range 20000 {
		e := entry{stream: int32(r.IntN(2)), size: int64(r.IntN(50)), addr: int64(r.IntN(1000)), id: 1}
		i, found := slices.BinarySearchFunc(want, e, func(a, b entry) int {
			if a.before(&b) == 1 {
				return -1
			} else if b.before(&a) == 1 {
				return 1
			}
			return 0
		})
		if found {
			if !s.remove(e) {
				t.Fatal("an entry was lost")
			}
			want = slices.Delete(want, i, i+1)
			continue
		}
		if s.remove(e) {
			t.Fatal("an entry was found that is not there")
		}
		s.insert(e)
		want = slices.Insert(want, i, e)
	}
	at := pos{}
	for _, w := range want {
		e, ok := s.at(at)
		if !ok || e != w {
			t.Fatalf("entry %+v, want %+v", e, w)
		}
		at = s.next(at)
	}
	if _, ok := s.at(at); ok || s.n != len(want) {
		t.Error("entries are left over")
	}
	p, ok := s.prev(pos{len(s.chunks), 0})
	if e, _ := s.at(p); !ok || e != want[len(want)-1] {
		t.Error("the last entry is not before the end")
	}
}

// The free blocks are in order whatever bins they lie in, and are found from any place, in both directions.
func TestFreeBlocks(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var f freeBlocks
	var want []entry
	order := func(a, b entry) int { return int(b.before(&a)) - int(a.before(&b)) }
	for range 20000 {
		e := entry{stream: int32(r.IntN(3)), size: int64(r.IntN(70)+1) * minBlock << r.IntN(45), addr: int64(r.IntN(4)),
			id: 1}
		i, found := slices.BinarySearchFunc(want, e, order)
		if f.remove(e) != found {
			t.Fatalf("%+v: found %v, want %v", e, !found, found)
		}
		if found {
			want = slices.Delete(want, i, i+1)
		} else {
			f.insert(e)
			want = slices.Insert(want, i, e)
		}
		size := e.size + int64(r.IntN(3)-1)*minBlock
		i, _ = slices.BinarySearchFunc(want, entry{stream: e.stream, size: size, addr: -1}, order)
		at := f.first(e.stream, size)
		if got, ok := f.at(at); ok != (i < len(want)) || ok && got != want[i] {
			t.Fatalf("the first of stream %d with %d is %+v %v, want place %d", e.stream, size, got, ok, i)
		}
		before, ok := f.prev(at)
		if ok != (i > 0) {
			t.Fatalf("before place %d: %v", i, ok)
		}
		if got, _ := f.at(before); ok && got != want[i-1] {
			t.Fatalf("before place %d is %+v, want %+v", i, got, want[i-1])
		}
	}
	at := f.from(0, 0)
	for _, w := range want {
		if e, ok := f.at(at); !ok || e != w {
			t.Fatalf("entry %+v, want %+v", e, w)
		}
		at = f.next(at)
	}
	if _, ok := f.at(at); ok || f.n != len(want) {
		t.Error("blocks are left over")
	}
}
