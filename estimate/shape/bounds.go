package shape

import (
	"fmt"
	"math"
	"strings"
)

// unknownPrefix begins the names of unknown values, which unlike unknown dimensions may
// be negative.
const unknownPrefix = "?v"

// unknownValue returns a new element of a value of which nothing is known.
func (c *call) unknownValue() Dim {
	c.inf.fresh++
	return Sym(fmt.Sprintf("%s%d", unknownPrefix, c.inf.fresh))
}

// boundsDepth is how deep nested max, min, floor and mod are looked into.
const boundsDepth = 8

// bounds returns numbers between which d lies when every symbol is at least sym;
// math.MinInt64 and math.MaxInt64 stand for no bound. Symbols are sizes, so
// sym is 0 where emptiness matters and 1 where it does not.
func bounds(d Dim, sym int64) (lo, hi int64) { return boundsAt(d, sym, boundsDepth) }

func boundsAt(d Dim, sym int64, depth int) (lo, hi int64) {
	if n, ok := d.Int(); ok {
		return n, n
	}
	if d.Overflowed() || depth == 0 {
		return math.MinInt64, math.MaxInt64
	}
	lo, hi = 0, 0
	for _, t := range d.x.terms {
		tlo, thi := t.coef, t.coef
		for _, a := range t.atoms {
			alo, ahi := a.bounds(sym, depth-1)
			tlo, thi = mulBounds(tlo, thi, alo, ahi)
		}
		lo, hi = addLow(lo, tlo), addHigh(hi, thi)
	}
	return lo, hi
}

func (a *atom) bounds(sym int64, depth int) (lo, hi int64) {
	if strings.HasPrefix(a.key, unknownPrefix) {
		return math.MinInt64, math.MaxInt64
	}
	if a.fn == 0 {
		return sym, math.MaxInt64
	}
	xlo, xhi := boundsAt(a.a, sym, depth)
	ylo, yhi := boundsAt(a.b, sym, depth)
	switch a.fn {
	case 'M':
		return max(xlo, ylo), max(xhi, yhi)
	case 'm':
		return min(xlo, ylo), min(xhi, yhi)
	case '%':
		if ylo > 0 {
			if yhi == math.MaxInt64 {
				return 0, yhi
			}
			return 0, yhi - 1
		}
	case '/':
		if ylo >= 0 && xlo >= 0 {
			lo = 0
			if yhi != math.MaxInt64 && yhi > 0 {
				lo = xlo / yhi
			}
			hi = xhi
			if ylo > 0 && xhi != math.MaxInt64 {
				hi = xhi / ylo
			}
			return lo, hi
		}
	}
	return math.MinInt64, math.MaxInt64
}

// mulBounds multiplies two intervals. The second is that of an atom.
func mulBounds(lo, hi, alo, ahi int64) (int64, int64) {
	a, b, c, d := mulSat(lo, alo), mulSat(lo, ahi), mulSat(hi, alo), mulSat(hi, ahi)
	return min(a, b, c, d), max(a, b, c, d)
}

// mulSat multiplies with the ends of int64 as infinities.
func mulSat(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	p, ok := mul64(a, b)
	inf := a == math.MinInt64 || a == math.MaxInt64 || b == math.MinInt64 || b == math.MaxInt64
	switch {
	case ok && !inf:
		return p
	case (a < 0) == (b < 0):
		return math.MaxInt64
	}
	return math.MinInt64
}

func addLow(a, b int64) int64 {
	if a == math.MinInt64 || b == math.MinInt64 {
		return math.MinInt64
	}
	if s, ok := Add(N(a), N(b)).Int(); ok {
		return s
	}
	return math.MinInt64
}

func addHigh(a, b int64) int64 {
	if a == math.MaxInt64 || b == math.MaxInt64 {
		return math.MaxInt64
	}
	if s, ok := Add(N(a), N(b)).Int(); ok {
		return s
	}
	return math.MaxInt64
}

// notNegative reports whether d is at least 0 whenever every symbol is at least 1.
func notNegative(d Dim) bool {
	lo, _ := bounds(d, 1)
	return lo >= 0
}

// less reports whether a < b, and whether that is decided for all sizes.
func less(a, b Dim) (value, decided bool) {
	if a.x == nil && b.x == nil {
		return a.n < b.n, true
	}
	lo, hi := bounds(Sub(a, b), 0)
	return hi < 0, hi < 0 || lo >= 0
}

// equal reports whether a == b, and whether that is decided for all sizes.
func equal(a, b Dim) (value, decided bool) {
	if a.x == nil && b.x == nil {
		return a.n == b.n, true
	}
	lo, hi := bounds(Sub(a, b), 0)
	return lo == 0 && hi == 0, lo == hi || lo > 0 || hi < 0
}

// isZero reports whether d is 0, and whether that is decided for all sizes.
func isZero(d Dim) (value, decided bool) { return equal(d, N(0)) }
