package shape

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestEvaluate(t *testing.T) {
	sizes := map[string]int64{"h": 9, "w": 2, "batch": 3, "s0": 6, "past_sequence_length": 15, "batch-size": 4,
		"sequence length": 5, "s0 / 0": 7, "f(x)": 8, "4096d": 1, "(s0": 2, "9223372036854775807*2": 3}
	size := func(name string) (int64, bool) { n, ok := sizes[name]; return n, ok }
	for _, c := range []struct{ text, want, names string }{
		{"8", "8", ""},
		{" batch ", "3", "batch"},
		{"past_sequence_length + 1", "16", "past_sequence_length"},
		{"2*batch + batch", "9", "batch batch"},
		{"floor(h/2)", "4", "h"},
		{"s0 // 4", "1", "s0"},
		{"ceil(h/2)", "5", "h"},
		{"CeilDiv(h, 2)", "5", "h"},
		{"(s0 + 1)*(s0 - 1)", "35", "s0 s0"},
		{"s0**2", "36", "s0"},
		{"-1", "-1", ""},
		{"Max(1, s0)", "6", "s0"},
		{"min(3, 4, 2)", "2", ""},
		{"h % 4", "1", "h"},
		{"max(floor((h + 1)/2), w) * 3 - mod(h, 4)", "14", "h w h"},
		{"h*unk__123", "?", "h unk__123"},
		{"Reshape.out:0", "?", "Reshape.out:0"},
		{"batch-size", "4", "batch-size"},
		{"s0-1", "5", "s0"},
		{"sequence length", "5", "sequence length"},
		{"s0 / 0", "7", "s0 / 0"},
		{"f(x)", "8", "f(x)"},
		{"4096d", "1", "4096d"},
		{"(s0", "2", "(s0"},
		{"9223372036854775807*2", "3", "9223372036854775807*2"},
	} {
		d, names := evaluate(c.text, size)
		if got := strings.Join(names, " "); d.String() != c.want || got != c.names {
			t.Errorf("evaluate(%q) = %v of %q, want %s of %q", c.text, d, got, c.want, c.names)
		}
	}
	deep := strings.Repeat("(", 200) + "h" + strings.Repeat(")", 200)
	if _, names := evaluate(deep, size); !slices.Equal(names, []string{deep}) {
		t.Errorf("200 parentheses have the symbols %q, want a symbol", names)
	}
}

func TestDimArithmetic(t *testing.T) {
	b := bounded(N(10))
	for _, c := range []struct {
		got          Dim
		text         string
		most, fewest int64
	}{
		{Product(), "1", 1, 1},
		{Product(b, N(0)), "0", 0, 0},
		{FloorDiv(N(-7), N(2)), "-4", -4, -4},
		{CeilDiv(N(7), N(2)), "4", 4, 4},
		{CeilDiv(N(-7), N(2)), "-3", -3, -3},
		{Mod(N(-7), N(3)), "2", 2, 2},
		{Min(N(4), N(5)), "4", 4, 4},
		{Add(b, N(3)), "?", 13, 4},
		{Sub(N(3), b), "?", -7, 2},
		{Mul(b, b), "?", 100, 1},
		{FloorDiv(Product(b, N(768)), Product(b, N(64))), "?", 12, 12},
		{FloorDiv(b, N(20)), "0", 0, 0},
		{Mod(b, N(11)), "?", 10, 1},
		{Max(b, N(-1)), "?", 10, 1},
		{Min(b, N(10)), "?", 10, 1},
		{Min(b, N(-1)), "-1", -1, -1},
		{bounded(Mul(b, N(2))), "?", 20, 1},
		{bounded(N(0)), "0", 0, 0},
	} {
		most, _ := c.got.Most()
		if fewest, ok := c.got.Fewest(); c.got.String() != c.text || most != c.most || fewest != c.fewest || !ok {
			t.Errorf("got %v of %d to %d, want %s of %d to %d", c.got, fewest, most, c.text, c.fewest, c.most)
		}
	}
	for _, d := range []Dim{Add(N(math.MaxInt64), N(1)), Mul(N(math.MinInt64), N(-1)), Mul(N(1<<32), N(1<<31)),
		Sub(N(math.MinInt64), N(1)), Mul(N(math.MaxInt64), b), Add(overflowed, b), FloorDiv(N(math.MinInt64), N(-1))} {
		if !d.Overflowed() {
			t.Errorf("got %v, want one that left int64", d)
		}
	}
	for _, d := range []Dim{FloorDiv(N(1), N(0)), Add(unknownSize, N(1)), Mul(unknownValue, b), FloorDiv(b, unknownSize)} {
		if _, known := d.Most(); known || d.Overflowed() {
			t.Errorf("got %v, want one that is not known", d)
		}
	}
}

// TestBoundsAreSound builds random expressions twice, of sizes that data decides and of numbers that it may decide for:
// what these give lies in the bounds.
func TestBoundsAreSound(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20000 {
		var limits, sizes []int64
		for range 3 {
			limits = append(limits, rng.Int64N(40)+1)
			sizes = append(sizes, rng.Int64N(limits[len(limits)-1]+1))
		}
		var build func(depth int) (open, num Dim)
		build = func(depth int) (open, num Dim) {
			if depth == 0 || rng.IntN(5) == 0 {
				if rng.IntN(2) == 0 {
					n := N(rng.Int64N(13) - 4)
					return n, n
				}
				i := rng.IntN(len(sizes))
				return bounded(N(limits[i])), N(sizes[i])
			}
			x, xn := build(depth - 1)
			y, yn := build(depth - 1)
			by := N(rng.Int64N(9) + 1)
			switch rng.IntN(7) {
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
				return Mod(x, by), Mod(xn, by)
			}
			return FloorDiv(x, by), FloorDiv(xn, by)
		}
		open, num := build(4)
		n, ok := num.Int()
		if lo, hi := open.bounds(); ok && !open.Overflowed() && (n < lo || n > hi) {
			t.Fatalf("%v of %v at most is %d, outside its bounds %d to %d", sizes, limits, n, lo, hi)
		}
	}
}
