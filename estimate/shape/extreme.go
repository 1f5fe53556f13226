package shape

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

// maxOf is Max that also uses what is known of signs: sizes are not negative.
func maxOf(a, b Dim) Dim {
	if v, decided := less(a, b); decided {
		if v {
			return b
		}
		return a
	}
	return Max(a, b)
}

// minOf is Min likewise.
func minOf(a, b Dim) Dim {
	if v, decided := less(a, b); decided {
		if v {
			return a
		}
		return b
	}
	return Min(a, b)
}
