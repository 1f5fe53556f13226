package shape

import (
	"math"
	"strings"
	"testing"
)

func TestParseDim(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"8", "8"},
		{" batch ", "batch"},
		{"past_sequence_length + 1", "past_sequence_length + 1"},
		{"batch*2", "2*batch"},
		{"2*batch + batch", "3*batch"},
		{"floor(h/2)", "floor(h/2)"},
		{"s0 // 2", "floor(s0/2)"},
		{"4*s0 // 2", "2*s0"},
		{"ceil(h/2)", "floor((h + 1)/2)"},
		{"floor((h - 1)/2) + 1", "floor((h + 1)/2)"},
		{"CeilDiv(h, 2)", "floor((h + 1)/2)"},
		{"(s0 + 1)*(s0 - 1)", "s0*s0 - 1"},
		{"s0**2", "s0*s0"},
		{"-1", "-1"},
		{"-s0 + 2*s0", "s0"},
		{"Max(1, s7)", "max(1, s7)"},
		{"min(3, 4, 2)", "2"},
		{"s0 % 4", "mod(s0, 4)"},
		{"batch_size * num_heads", "batch_size*num_heads"},
		{"unk__123", "unk__123"},
		{"Reshape.out:0", "Reshape.out:0"},
		{"batch-size", "batch-size"},
		{"s0 - s1", "s0 - s1"},
		{"s0-1", "s0 - 1"},
		{"sequence length", "sequence length"},
		{"s0 / 0", "s0 / 0"},
		{"f(x)", "f(x)"},
		{"4096d", "4096d"},
		{"(s0", "(s0"},
		{"9223372036854775807*2", "9223372036854775807*2"},
	} {
		d, ok := ParseDim(c.text)
		if !ok || d.String() != c.want {
			t.Errorf("ParseDim(%q) = %v, %v, want %s", c.text, d, ok, c.want)
		}
	}
	if _, ok := ParseDim(" "); ok {
		t.Error("ParseDim of a blank is ok")
	}
	deep := strings.Repeat("(", 200) + "x" + strings.Repeat(")", 200)
	if d, _ := ParseDim(deep); d.String() != deep {
		t.Errorf("ParseDim of 200 parentheses = %v, want a symbol", d)
	}
}

func TestDimArithmetic(t *testing.T) {
	b, s := Sym("b"), Sym("s")
	for _, c := range []struct {
		got  Dim
		want string
	}{
		{Add(b, b), "2*b"},
		{Sub(Add(b, N(3)), b), "3"},
		{Mul(Add(b, N(1)), Add(b, N(1))), "b*b + 2*b + 1"},
		{Product(b, N(0), s), "0"},
		{Product(), "1"},
		{FloorDiv(Product(b, s, N(768)), Product(b, N(64))), "12*s"},
		{FloorDiv(N(-7), N(2)), "-4"},
		{CeilDiv(N(7), N(2)), "4"},
		{CeilDiv(N(-7), N(2)), "-3"},
		{Mod(N(-7), N(3)), "2"},
		{FloorDiv(Add(Mul(N(4), b), N(5)), N(2)), "2*b + 2"},
		{FloorDiv(Sub(b, N(1)), N(2)), "floor((b + 1)/2) - 1"},
		{Max(Add(b, N(1)), b), "b + 1"},
		{Min(N(4), N(5)), "4"},
		{Add(N(math.MaxInt64), N(1)), "overflow"},
		{Mul(N(math.MinInt64), N(-1)), "overflow"},
		{Mul(N(1<<32), N(1<<31)), "overflow"},
		{Sub(N(math.MinInt64), N(1)), "overflow"},
		{Add(Mul(N(math.MaxInt64), b), b), "overflow"},
		{FloorDiv(N(1), N(0)), "?/0"},
	} {
		if c.got.String() != c.want {
			t.Errorf("got %v, want %s", c.got, c.want)
		}
	}
}

func TestDimBind(t *testing.T) {
	d, _ := ParseDim("max(floor((h + 1)/2), w) * 3 - mod(h, 4)")
	got := d.Bind(func(name string) (Dim, bool) {
		return N(map[string]int64{"h": 9, "w": 2}[name]), true
	})
	if n, ok := got.Int(); !ok || n != 14 {
		t.Errorf("%v with h=9, w=2 is %v, want 14", d, got)
	}
}

// A file can ask for expressions that double at every step. They must end.
func TestDimStaysSmall(t *testing.T) {
	d := Add(Sym("a"), Sym("b"))
	e := d
	for range 200 {
		d = Mul(d, d)
		e = Max(FloorDiv(e, N(3)), Mod(Add(e, N(1)), N(5)))
		if len(e.String()) > 8*maxKey {
			t.Fatalf("an expression of %d bytes", len(e.String()))
		}
	}
	if !d.Overflowed() {
		t.Errorf("(a+b)^(2^200) is %v", d)
	}
}
