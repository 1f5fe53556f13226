package shape

import (
	"slices"
	"strings"
)

// A Dim is a dimension, or an element of a shape computation: a number, or an integer
// expression over symbols such as batch*2. Expressions are kept as sums of
// products, so that equal ones compare equal. Arithmetic that leaves int64 gives
// a Dim that is not a number and stays so: see Overflowed.
type Dim struct {
	n int64 // when x is nil
	x *poly
}

// A poly is a sum of terms in canonical order, at least one of them symbolic.
type poly struct {
	terms    []term
	overflow bool
	vague    bool // with overflow: too long an expression, not too large a number
}

// Expressions beyond these limits are given up: they come from no exporter, and a
// chain of multiplications doubles in length at every step.
const (
	maxTerms = 64
	maxAtoms = 16
	maxKey   = 1 << 10
)

// A term is coef times the product of its atoms; the constant term has none.
type term struct {
	coef  int64
	atoms []*atom // sorted by key
}

// An atom is a symbol, or a function that a sum of products cannot express.
type atom struct {
	key  string // canonical text: identity and order
	fn   byte   // 0: a symbol; '/', '%', 'M' (max), 'm' (min): a function of a and b
	a, b Dim
}

var (
	overflowed = Dim{x: &poly{overflow: true}}
	vague      = Dim{x: &poly{overflow: true, vague: true}}
)

// N returns a number.
func N(n int64) Dim { return Dim{n: n} }

// Sym returns a symbol. Names beginning with "?" are unnamed unknowns.
func Sym(name string) Dim { return ofAtom(&atom{key: name}) }

func ofAtom(a *atom) Dim {
	if len(a.key) > maxKey && a.fn != 0 {
		return vague
	}
	return Dim{x: &poly{terms: []term{{1, []*atom{a}}}}}
}

// Int returns the number that d is, and whether it is one.
func (d Dim) Int() (int64, bool) { return d.n, d.x == nil }

// Overflowed reports whether d is the result of arithmetic that left int64.
func (d Dim) Overflowed() bool { return d.x != nil && d.x.overflow }

// giveUp returns the one of a and b that is not a value any more.
func giveUp(a, b Dim) Dim {
	if a.Overflowed() {
		return a
	}
	return b
}

// Symbols calls f for every symbol in d, in order, repeats included.
func (d Dim) Symbols(f func(name string)) {
	if d.x == nil {
		return
	}
	for _, t := range d.x.terms {
		for _, a := range t.atoms {
			if a.fn == 0 {
				f(a.key)
				continue
			}
			a.a.Symbols(f)
			a.b.Symbols(f)
		}
	}
}

// Unnamed reports whether d depends on a dimension that has no name in the file.
func (d Dim) Unnamed() bool {
	found := d.Overflowed()
	d.Symbols(func(name string) { found = found || strings.HasPrefix(name, "?") })
	return found
}

// Equal reports whether a and b are the same expression. Different expressions
// may still have the same value once their symbols are bound.
func (d Dim) Equal(e Dim) bool {
	if d.x == nil || e.x == nil {
		return d.x == nil && e.x == nil && d.n == e.n
	}
	if d.x == e.x {
		return !d.x.overflow
	}
	return !d.x.overflow && !e.x.overflow && slices.EqualFunc(d.x.terms, e.x.terms, func(s, t term) bool {
		return s.coef == t.coef && sameAtoms(s.atoms, t.atoms)
	})
}

func sameAtoms(a, b []*atom) bool {
	return slices.EqualFunc(a, b, func(x, y *atom) bool { return x == y || x.key == y.key })
}

// symbol returns the symbol that d is, and whether it is one alone.
func (d Dim) symbol() (string, bool) {
	if d.x == nil || len(d.x.terms) != 1 {
		return "", false
	}
	t := d.x.terms[0]
	if t.coef != 1 || len(t.atoms) != 1 || t.atoms[0].fn != 0 {
		return "", false
	}
	return t.atoms[0].key, true
}

// Add returns a + b.
func Add(a, b Dim) Dim {
	if a.x == nil && b.x == nil {
		s := a.n + b.n
		if (s > a.n) != (b.n > 0) && b.n != 0 {
			return overflowed
		}
		return N(s)
	}
	return sum(a, b, 1)
}

// Sub returns a - b.
func Sub(a, b Dim) Dim {
	if a.x == nil && b.x == nil {
		s := a.n - b.n
		if (s < a.n) != (b.n > 0) && b.n != 0 {
			return overflowed
		}
		return N(s)
	}
	return sum(a, b, -1)
}

// Mul returns a * b.
func Mul(a, b Dim) Dim {
	if a.x == nil && b.x == nil {
		p, ok := mul64(a.n, b.n)
		if !ok {
			return overflowed
		}
		return N(p)
	}
	if a.Overflowed() || b.Overflowed() {
		return giveUp(a, b)
	}
	if len(a.termList())*len(b.termList()) > maxTerms {
		return vague
	}
	var out []term
	for _, s := range a.termList() {
		for _, t := range b.termList() {
			if len(s.atoms)+len(t.atoms) > maxAtoms {
				return vague
			}
			coef, ok := mul64(s.coef, t.coef)
			if !ok {
				return overflowed
			}
			atoms := append(slices.Clone(s.atoms), t.atoms...)
			slices.SortStableFunc(atoms, func(x, y *atom) int { return strings.Compare(x.key, y.key) })
			out = append(out, term{coef, atoms})
		}
	}
	return canonical(out)
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

// FloorDiv returns a / b rounded towards minus infinity. A division by zero is
// an unnamed unknown: rules that divide by file data check it first.
func FloorDiv(a, b Dim) Dim {
	x, okA := a.Int()
	y, okB := b.Int()
	switch {
	case a.Overflowed() || b.Overflowed():
		return giveUp(a, b)
	case okB && y == 0:
		return Sym("?/0")
	case okB && y == 1:
		return a
	case okA && okB:
		if y == -1 {
			return Mul(a, N(-1))
		}
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return N(q)
	case a.Equal(b):
		return N(1) // dimensions are positive where they divide
	}
	if q, ok := exactDiv(a, b); ok {
		return q
	}
	if okB && y > 0 {
		if whole, rest := wholeParts(a, y); len(whole) > 0 {
			return Add(canonical(whole), FloorDiv(canonical(rest), b))
		}
		if d, ok := simplerFloor(a, y); ok {
			return d
		}
	}
	return ofAtom(&atom{key: "floor(" + a.operand() + "/" + b.operand() + ")", fn: '/', a: a, b: b})
}

// simplerFloor writes floor(a/y) with smaller numbers or without a floor inside, when it
// can: floor(4*n/6) is floor(2*n/3), and floor((floor(n/2)+1)/3) is floor((n+2)/6). Strided
// convolutions and reshapes nest them.
func simplerFloor(a Dim, y int64) (Dim, bool) {
	g := y
	for _, t := range a.x.terms {
		if len(t.atoms) > 0 {
			g = gcd(g, t.coef)
		}
	}
	if g > 1 {
		var out []term
		for _, t := range a.x.terms {
			q := t.coef / g
			if t.coef%g != 0 && t.coef < 0 {
				q--
			}
			out = append(out, term{q, t.atoms})
		}
		return FloorDiv(canonical(out), N(y/g)), true
	}
	if lead := a.x.terms[0].coef; lead < 0 { // floor(-n/3) is -floor((n+2)/3)
		if minus := Sub(N(y-1), a); !minus.Overflowed() {
			return Sub(N(0), FloorDiv(minus, N(y))), true
		}
	}
	if sum, ok := openMods(a, y, false); ok { // floor((n+mod(-n, 7))/7) is floor((n+6)/7)
		return FloorDiv(sum, N(y)), true
	}
	for i, t := range a.x.terms {
		if t.coef != 1 || len(t.atoms) != 1 || t.atoms[0].fn != '/' {
			continue
		}
		z, ok := t.atoms[0].b.Int()
		zy, fits := mul64(z, y)
		if !ok || z <= 0 || !fits {
			continue
		}
		rest := slices.Delete(slices.Clone(a.x.terms), i, i+1)
		if sum := Add(t.atoms[0].a, Mul(canonical(rest), N(z))); !sum.Overflowed() {
			return FloorDiv(sum, N(zy)), true
		}
	}
	return Dim{}, false
}

// openMods replaces mod(x, m) in a, where m is a multiple of y, by x - m*floor(x/m), or by
// x alone where multiples of y do not matter. It reports whether there was one.
func openMods(a Dim, y int64, modulo bool) (Dim, bool) {
	found := false
	out := N(0)
	for _, t := range a.x.terms {
		d := Dim{x: &poly{terms: []term{t}}}
		if len(t.atoms) == 0 {
			d = N(t.coef)
		} else if len(t.atoms) == 1 && t.atoms[0].fn == '%' {
			x := t.atoms[0].a
			if m, ok := t.atoms[0].b.Int(); ok && m > 0 && m%y == 0 {
				found = true
				if !modulo {
					x = Sub(x, Mul(N(m), FloorDiv(x, N(m))))
				}
				d = Mul(N(t.coef), x)
			}
		}
		out = Add(out, d)
	}
	return out, found && !out.Overflowed()
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	if a < 0 {
		return -a
	}
	return a
}

// wholeParts splits a/y into the terms that divide without rest, already divided, and
// those that stay under the division, whose constant is then between 0 and
// y-1. It makes floor((h-1)/2) + 1 and floor((h+1)/2) the same expression.
func wholeParts(a Dim, y int64) (whole, rest []term) {
	for _, t := range a.termList() {
		q, r := t.coef/y, t.coef%y
		if len(t.atoms) > 0 && r != 0 {
			rest = append(rest, t)
			continue
		}
		if r < 0 {
			q, r = q-1, r+y
		}
		if q != 0 {
			whole = append(whole, term{q, t.atoms})
		}
		if r != 0 {
			rest = append(rest, term{coef: r})
		}
	}
	return whole, rest
}

// CeilDiv returns a / b rounded towards plus infinity.
func CeilDiv(a, b Dim) Dim {
	if y, ok := b.Int(); ok && y > 1 && a.x != nil {
		return FloorDiv(Add(a, N(y-1)), b)
	}
	return Sub(N(0), FloorDiv(Sub(N(0), a), b))
}

// Mod returns a - b*FloorDiv(a, b).
func Mod(a, b Dim) Dim {
	x, okA := a.Int()
	y, okB := b.Int()
	if a.Overflowed() || b.Overflowed() {
		return giveUp(a, b)
	}
	if okB && y == 0 {
		return Sym("?%0")
	}
	if okA && okB {
		if y == -1 {
			return N(0)
		}
		m := x % y
		if m != 0 && (m < 0) != (y < 0) {
			m += y
		}
		return N(m)
	}
	if _, ok := exactDiv(a, b); ok {
		return N(0)
	}
	if okB && y > 0 {
		if sum, ok := openMods(a, y, true); ok {
			return Mod(sum, b)
		}
		// Multiples of y do not matter; a constant becomes one between 0 and y-1.
		out := slices.Clone(a.x.terms)
		for i, t := range out {
			if out[i].coef = t.coef % y; len(t.atoms) == 0 && t.coef < 0 {
				out[i].coef = (t.coef%y + y) % y
			}
		}
		if less := canonical(out); !less.Equal(a) {
			return Mod(less, b)
		}
	}
	return ofAtom(&atom{key: "mod(" + a.String() + ", " + b.String() + ")", fn: '%', a: a, b: b})
}

// Max returns the larger of a and b.
func Max(a, b Dim) Dim { return extreme(a, b, 'M', "max") }

// Min returns the smaller of a and b.
func Min(a, b Dim) Dim { return extreme(a, b, 'm', "min") }

func extreme(a, b Dim, fn byte, name string) Dim {
	if a.Overflowed() || b.Overflowed() {
		return giveUp(a, b)
	}
	if a.Equal(b) {
		return a
	}
	if diff, ok := Sub(a, b).Int(); ok { // also when both are symbolic but differ by a number
		if (diff > 0) == (fn == 'M') {
			return a
		}
		return b
	}
	if d, ok := absorb(a, b, fn, name); ok {
		return d
	}
	if d, ok := absorb(b, a, fn, name); ok {
		return d
	}
	s, t := a.String(), b.String()
	if t < s {
		a, b, s, t = b, a, t, s
	}
	return ofAtom(&atom{key: name + "(" + s + ", " + t + ")", fn: fn, a: a, b: b})
}

// absorb simplifies an extreme of a, which is one itself, and b: max(min(x, b), b) is b,
// and max(max(x, b - 1), b) is max(x, b).
func absorb(a, b Dim, fn byte, name string) (Dim, bool) {
	if a.x == nil || len(a.x.terms) != 1 || a.x.terms[0].coef != 1 || len(a.x.terms[0].atoms) != 1 {
		return Dim{}, false
	}
	inner := a.x.terms[0].atoms[0]
	if inner.fn != 'M' && inner.fn != 'm' {
		return Dim{}, false
	}
	for _, p := range [][2]Dim{{inner.a, inner.b}, {inner.b, inner.a}} {
		diff, ok := Sub(p[0], b).Int()
		switch {
		case !ok:
		case inner.fn == fn && (diff >= 0) == (fn == 'M' || diff == 0):
			return a, true
		case inner.fn == fn:
			return extreme(p[1], b, fn, name), true
		case (diff <= 0) == (fn == 'M' || diff == 0):
			return b, true
		}
	}
	return Dim{}, false
}

// Bind replaces symbols by what value returns for them; where it answers false the
// symbol stays.
func (d Dim) Bind(value func(name string) (Dim, bool)) Dim {
	if d.x == nil || d.x.overflow {
		return d
	}
	out := N(0)
	for _, t := range d.x.terms {
		p := N(t.coef)
		for _, a := range t.atoms {
			p = Mul(p, a.bind(value))
		}
		out = Add(out, p)
	}
	return out
}

func (a *atom) bind(value func(string) (Dim, bool)) Dim {
	if a.fn == 0 {
		if v, ok := value(a.key); ok {
			return v
		}
		return ofAtom(a)
	}
	x, y := a.a.Bind(value), a.b.Bind(value)
	switch a.fn {
	case '/':
		return FloorDiv(x, y)
	case '%':
		return Mod(x, y)
	case 'M':
		return Max(x, y)
	}
	return Min(x, y)
}
