package shape

import (
	"math"
	"math/bits"
	"strconv"
)

// A Dim is a dimension, or an element of a shape computation. It is a number, or open: data decides it, or nothing is
// known of it but bounds. Arithmetic that leaves int64 gives a Dim that stays so: see Overflowed.
type Dim struct {
	n int64 // when x is nil
	x *open
}

// An open Dim is no number. Of one that data decides it has what it comes to at the ends: where everything that data
// decides is as large as it can be, and where it is one.
type open struct {
	lo, hi       int64 // it is not below and not above; the ends of int64 are no bounds
	sized        bool  // data decides it
	most, fewest int64 // when sized
	overflow     bool
}

var (
	unknownSize  = Dim{x: &open{lo: 0, hi: math.MaxInt64}}
	unknownValue = Dim{x: &open{lo: math.MinInt64, hi: math.MaxInt64}} // which unlike a size may be negative
	overflowed   = Dim{x: &open{lo: math.MinInt64, hi: math.MaxInt64, overflow: true}}
)

// N returns a number.
func N(n int64) Dim { return Dim{n: n} }

// bounded returns a size that data decides, at most limit.
func bounded(limit Dim) Dim {
	switch most, ok := limit.Most(); {
	case !ok:
		return unknownSize
	case most <= 0:
		return N(most)
	default:
		return Dim{x: &open{hi: most, sized: true, most: most, fewest: 1}}
	}
}

// Int returns the number that d is, and whether it is one.
func (d Dim) Int() (int64, bool) { return d.n, d.x == nil }

// Open reports whether d is no number.
func (d Dim) Open() bool { return d.x != nil }

// Overflowed reports whether d is the result of arithmetic that left int64.
func (d Dim) Overflowed() bool { return d.x != nil && d.x.overflow }

// Most returns the most that d can be, and whether that is known: a number, or what data decides.
func (d Dim) Most() (int64, bool) {
	if d.x == nil {
		return d.n, true
	}
	return d.x.most, d.x.sized
}

// Fewest is Most where data decides for the least that is worth a run: one.
func (d Dim) Fewest() (int64, bool) {
	if d.x == nil {
		return d.n, true
	}
	return d.x.fewest, d.x.sized
}

// ByData reports whether data decides d.
func (d Dim) ByData() bool { return d.x != nil && d.x.sized }

func (d Dim) bounds() (lo, hi int64) {
	if d.x == nil {
		return d.n, d.n
	}
	return d.x.lo, d.x.hi
}

// same reports whether a and b say the same.
func same(a, b Dim) bool { return a == b || a.x != nil && b.x != nil && *a.x == *b.x }

// Equal reports whether a and b are taken for the same size: equal numbers, or what data decides within equal limits.
func (d Dim) Equal(e Dim) bool {
	_, known := d.Most()
	return known && same(d, e)
}

// String writes a number, or ? for what is none.
func (d Dim) String() string {
	switch {
	case d.x == nil:
		return strconv.FormatInt(d.n, 10)
	case d.x.overflow:
		return "overflow"
	}
	return "?"
}

// An arithmetic is an operation on numbers, and what it makes of bounds.
type arithmetic struct {
	of     func(x, y int64) (int64, bool) // false where the result leaves int64, or there is none
	within func(alo, ahi, blo, bhi int64) (lo, hi int64)
}

// do applies an operation.
func (o *arithmetic) do(a, b Dim) Dim {
	if a.Overflowed() || b.Overflowed() {
		return overflowed
	}
	if a.x == nil && b.x == nil {
		n, ok := o.of(a.n, b.n)
		if !ok {
			return overflowed
		}
		return N(n)
	}
	var out open
	alo, ahi := a.bounds()
	blo, bhi := b.bounds()
	if out.lo, out.hi = o.within(alo, ahi, blo, bhi); out.lo == out.hi && !infinite(out.lo) {
		return N(out.lo)
	}
	aMost, okA := a.Most()
	bMost, okB := b.Most()
	if out.sized = okA && okB; out.sized {
		aFewest, _ := a.Fewest()
		bFewest, _ := b.Fewest()
		var okMost, okFewest bool
		out.most, okMost = o.of(aMost, bMost)
		out.fewest, okFewest = o.of(aFewest, bFewest)
		if !okMost || !okFewest {
			return overflowed
		}
	}
	return Dim{x: &out}
}

// Add returns a + b.
func Add(a, b Dim) Dim { return addition.do(a, b) }

var addition = &arithmetic{add64, func(alo, ahi, blo, bhi int64) (int64, int64) {
	return addEnd(alo, blo), addEnd(ahi, bhi)
}}

func add64(a, b int64) (int64, bool) {
	s := a + b
	return s, (s > a) == (b > 0) || b == 0
}

// infinite reports whether an end of bounds is none.
func infinite(end int64) bool { return end == math.MinInt64 || end == math.MaxInt64 }

// addEnd adds two lower ends or two upper ends.
func addEnd(a, b int64) int64 {
	switch s, ok := add64(a, b); {
	case infinite(a):
		return a
	case infinite(b):
		return b
	case ok:
		return s
	case a < 0:
		return math.MinInt64
	}
	return math.MaxInt64
}

// Sub returns a - b.
func Sub(a, b Dim) Dim { return subtraction.do(a, b) }

var subtraction = &arithmetic{
	func(x, y int64) (int64, bool) {
		s := x - y
		return s, (s < x) == (y > 0) || y == 0
	},
	func(alo, ahi, blo, bhi int64) (int64, int64) {
		return addEnd(alo, negative(bhi)), addEnd(ahi, negative(blo))
	},
}

func negative(end int64) int64 {
	switch end {
	case math.MinInt64:
		return math.MaxInt64
	case math.MaxInt64:
		return math.MinInt64
	}
	return -end
}

// Mul returns a * b.
func Mul(a, b Dim) Dim { return product.do(a, b) }

var product = &arithmetic{mul64, func(alo, ahi, blo, bhi int64) (int64, int64) {
	a, b, c, d := mulEnd(alo, blo), mulEnd(alo, bhi), mulEnd(ahi, blo), mulEnd(ahi, bhi)
	return min(a, b, c, d), max(a, b, c, d)
}}

// mul64 multiplies, and reports whether the product fits.
func mul64(a, b int64) (int64, bool) {
	magnitude := func(n int64) uint64 {
		if n < 0 {
			return -uint64(n)
		}
		return uint64(n)
	}
	hi, lo := bits.Mul64(magnitude(a), magnitude(b))
	if (a < 0) != (b < 0) {
		return -int64(lo), hi == 0 && lo <= 1<<63
	}
	return int64(lo), hi == 0 && lo < 1<<63
}

func mulEnd(a, b int64) int64 {
	switch p, ok := mul64(a, b); {
	case a == 0 || b == 0:
		return 0
	case ok && !infinite(a) && !infinite(b):
		return p
	case (a < 0) == (b < 0):
		return math.MaxInt64
	}
	return math.MinInt64
}

// Product returns the product of the dimensions: 1 for none, 0 when any is 0.
func Product(dims ...Dim) Dim {
	p := N(1)
	for _, d := range dims {
		if n, ok := d.Int(); ok && n == 0 {
			return N(0)
		}
	}
	for _, d := range dims {
		p = Mul(p, d)
	}
	return p
}

// FloorDiv returns a / b rounded towards minus infinity. A division by zero gives what is not known: rules that divide
// by file data check it first.
func FloorDiv(a, b Dim) Dim {
	if divides(b) || a.Overflowed() {
		return quotient.do(a, b)
	}
	return unknownSize
}

// divides reports whether b is not 0 at its ends.
func divides(b Dim) bool {
	most, _ := b.Most()
	fewest, known := b.Fewest()
	return !known || most != 0 && fewest != 0
}

var quotient = &arithmetic{
	floor64,
	func(alo, ahi, blo, bhi int64) (lo, hi int64) {
		if blo < 0 || infinite(alo) {
			return math.MinInt64, math.MaxInt64
		}
		by := func(x, y int64) int64 {
			switch {
			case infinite(x):
				return x
			case infinite(y) && x >= 0:
				return 0
			case infinite(y):
				return -1
			}
			q, _ := floor64(x, y)
			return q
		}
		blo = max(blo, 1) // nothing is divided by 0
		return min(by(alo, blo), by(alo, bhi)), max(by(ahi, blo), by(ahi, bhi))
	},
}

func floor64(x, y int64) (int64, bool) {
	if y == -1 {
		return -x, x != math.MinInt64
	}
	q := x / y
	if x%y != 0 && (x < 0) != (y < 0) {
		q--
	}
	return q, true
}

// CeilDiv returns a / b rounded towards plus infinity.
func CeilDiv(a, b Dim) Dim { return Sub(N(0), FloorDiv(Sub(N(0), a), b)) }

// Mod returns a - b*FloorDiv(a, b).
func Mod(a, b Dim) Dim {
	if !divides(b) {
		return unknownSize
	}
	if alo, ahi := a.bounds(); alo >= 0 && a.Open() {
		if blo, _ := b.bounds(); ahi < blo {
			return a
		}
	}
	return remainder.do(a, b)
}

var remainder = &arithmetic{
	func(x, y int64) (int64, bool) {
		if y == -1 { // the least number divided by it does not fit
			return 0, true
		}
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return m, true
	},
	func(_, _, blo, bhi int64) (lo, hi int64) {
		switch {
		case blo < 0:
			return math.MinInt64, math.MaxInt64
		case infinite(bhi):
			return 0, bhi
		}
		return 0, max(bhi-1, 0)
	},
}

// Max returns the larger of a and b.
func Max(a, b Dim) Dim {
	if v, decided := less(a, b); decided {
		if v {
			return b
		}
		return a
	}
	return larger.do(a, b)
}

// Min returns the smaller of a and b.
func Min(a, b Dim) Dim {
	if v, decided := less(a, b); decided {
		if v {
			return a
		}
		return b
	}
	return smaller.do(a, b)
}

var (
	larger = &arithmetic{
		func(x, y int64) (int64, bool) { return max(x, y), true },
		func(alo, ahi, blo, bhi int64) (int64, int64) { return max(alo, blo), max(ahi, bhi) },
	}
	smaller = &arithmetic{
		func(x, y int64) (int64, bool) { return min(x, y), true },
		func(alo, ahi, blo, bhi int64) (int64, int64) { return min(alo, blo), min(ahi, bhi) },
	}
)

// notNegative reports whether d cannot be below 0.
func notNegative(d Dim) bool {
	lo, _ := d.bounds()
	return lo >= 0
}

// less reports whether a < b, and whether that is decided whatever data there is.
func less(a, b Dim) (value, decided bool) {
	alo, ahi := a.bounds()
	blo, bhi := b.bounds()
	return ahi < blo, ahi < blo || alo >= bhi
}

// equal reports whether a == b, and whether that is decided whatever data there is.
func equal(a, b Dim) (value, decided bool) {
	alo, ahi := a.bounds()
	blo, bhi := b.bounds()
	value = !a.Open() && !b.Open() && a.n == b.n
	return value, value || ahi < blo || bhi < alo
}

// isZero reports whether d is 0, and whether that is decided whatever data there is.
func isZero(d Dim) (value, decided bool) { return equal(d, N(0)) }
