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
	s, t := a.String(), b.String()
	if t < s {
		a, b, s, t = b, a, t, s
	}
	return ofAtom(&atom{key: name + "(" + s + ", " + t + ")", fn: fn, a: a, b: b})
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
