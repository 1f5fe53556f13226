package shape

import (
	"math/rand/v2"
	"testing"
)

// TestAlgebraIsSound builds random expressions twice, of symbols and of the numbers that
// the symbols stand for: bound, the first must give the second, and lie in its bounds.
func TestAlgebraIsSound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	names := []string{"a", "b", "c"}
	for range 20000 {
		sizes := map[string]int64{}
		for _, n := range names {
			sizes[n] = rng.Int64N(40) + 1
		}
		value := func(name string) (Dim, bool) { return N(sizes[name]), true }
		var build func(depth int) (sym, num Dim)
		build = func(depth int) (sym, num Dim) {
			if depth == 0 || rng.IntN(5) == 0 {
				if rng.IntN(2) == 0 {
					n := N(rng.Int64N(13) - 4)
					return n, n
				}
				name := names[rng.IntN(len(names))]
				return Sym(name), N(sizes[name])
			}
			x, xn := build(depth - 1)
			switch y, yn := build(depth - 1); rng.IntN(7) {
			case 0:
				return Add(x, y), Add(xn, yn)
			case 1:
				return Sub(x, y), Sub(xn, yn)
			case 2:
				return Mul(x, y), Mul(xn, yn)
			case 3:
				return Max(x, y), Max(xn, yn)
			case 4:
				return Min(x, y), Min(xn, yn)
			case 5:
				by := N(rng.Int64N(9) + 1)
				return Mod(x, by), Mod(xn, by)
			default:
				by := N(rng.Int64N(9) + 1)
				return FloorDiv(x, by), FloorDiv(xn, by)
			}
		}
		sym, num := build(4)
		if sym.Overflowed() || num.Overflowed() {
			continue
		}
		if got := sym.Bind(value); !got.Equal(num) {
			t.Fatalf("%v at %v is %v, wanted %v", sym, sizes, got, num)
		}
		n, _ := num.Int()
		if lo, hi := bounds(sym, 1); n < lo || n > hi {
			t.Fatalf("%v at %v is %v, outside its bounds %d to %d", sym, sizes, num, lo, hi)
		}
	}
}
