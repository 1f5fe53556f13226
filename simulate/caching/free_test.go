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
	if got := slices.Concat(s...); !slices.Equal(got, want) {
		t.Errorf("entries %+v, want %+v", got, want)
	}
}

// The free blocks are in order whatever bins they lie in, and are found from any place.
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
		there := i < len(want) && want[i].stream == e.stream
		if got, ok := f.first(e.stream, size); ok != there || ok && got != want[i] {
			t.Fatalf("the first of stream %d with %d is %+v %v, want place %d", e.stream, size, got, ok, i)
		}
		f.ascend(e.stream, size, func(got entry) bool {
			if got != want[i] {
				t.Fatalf("place %d has %+v, want %+v", i, got, want[i])
			}
			i++
			return i%10 != 0
		})
	}
	if got := slices.Collect(f.all); !slices.Equal(got, want) {
		t.Errorf("blocks %+v, want %+v", got, want)
	}
}
