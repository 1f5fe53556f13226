package shape

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
