package shape

import "slices"

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
