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
