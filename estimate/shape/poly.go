package shape

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// String writes d as a person would: 8, batch*2, 4*batch*seq + 1, or ? when it
// depends on a dimension without a name.
func (d Dim) String() string {
	if d.x == nil {
		return strconv.FormatInt(d.n, 10)
	}
	if d.x.overflow {
		return "overflow"
	}
	var b strings.Builder
	for i, t := range d.x.terms {
		coef := t.coef
		switch {
		case i > 0 && coef < 0:
			b.WriteString(" - ")
			coef = -coef
		case i > 0:
			b.WriteString(" + ")
		}
		switch {
		case len(t.atoms) == 0:
			b.WriteString(strconv.FormatInt(coef, 10))
			continue
		case coef == -1:
			b.WriteByte('-')
		case coef != 1:
			b.WriteString(strconv.FormatInt(coef, 10) + "*")
		}
		for j, a := range t.atoms {
			if j > 0 {
				b.WriteByte('*')
			}
			b.WriteString(a.key)
		}
	}
	return b.String()
}

// operand writes d as it stands beside a division sign.
func (d Dim) operand() string {
	if _, single := d.symbol(); single || d.x == nil && d.n >= 0 {
		return d.String()
	}
	return "(" + d.String() + ")"
}

func (d Dim) termList() []term {
	if d.x != nil {
		return d.x.terms
	}
	return []term{{coef: d.n}}
}

func sum(a, b Dim, sign int64) Dim {
	if a.Overflowed() || b.Overflowed() {
		return giveUp(a, b)
	}
	out := slices.Clone(a.termList())
	for _, t := range b.termList() {
		coef, ok := mul64(t.coef, sign)
		if !ok {
			return overflowed
		}
		out = append(out, term{coef, t.atoms})
	}
	return canonical(out)
}

// canonical merges terms with the same atoms, drops zeros and sorts: higher
// degree first, then by name, so that the constant comes last.
func canonical(terms []term) Dim {
	slices.SortStableFunc(terms, func(s, t term) int {
		if c := len(t.atoms) - len(s.atoms); c != 0 {
			return c
		}
		return slices.CompareFunc(s.atoms, t.atoms, func(x, y *atom) int { return strings.Compare(x.key, y.key) })
	})
	out := terms[:0:0]
	for _, t := range terms {
		if k := len(out) - 1; k >= 0 && sameAtoms(out[k].atoms, t.atoms) {
			s := Add(N(out[k].coef), N(t.coef))
			if s.Overflowed() {
				return overflowed
			}
			out[k].coef = s.n
			continue
		}
		out = append(out, t)
	}
	out = slices.DeleteFunc(out, func(t term) bool { return t.coef == 0 })
	switch {
	case len(out) == 0:
		return N(0)
	case len(out) == 1 && len(out[0].atoms) == 0:
		return N(out[0].coef)
	case len(out) > maxTerms:
		return vague
	}
	return Dim{x: &poly{terms: out}}
}

// exactDiv divides every term of a by b when b is a single term that divides
// all of them, as a reshape's -1 needs: 4*batch*seq / (2*batch) = 2*seq.
func exactDiv(a, b Dim) (Dim, bool) {
	bt := b.termList()
	if len(bt) != 1 || bt[0].coef == 0 {
		return Dim{}, false
	}
	var out []term
	for _, t := range a.termList() {
		if t.coef%bt[0].coef != 0 {
			return Dim{}, false
		}
		atoms := slices.Clone(t.atoms)
		for _, x := range bt[0].atoms {
			i := slices.IndexFunc(atoms, func(y *atom) bool { return x.key == y.key })
			if i < 0 {
				return Dim{}, false
			}
			atoms = slices.Delete(atoms, i, i+1)
		}
		out = append(out, term{t.coef / bt[0].coef, atoms})
	}
	return canonical(out), true
}

// mul64 multiplies, and reports whether the product fits.
func mul64(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	neg := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(abs64(a), abs64(b))
	if hi != 0 || lo > 1<<63 || (lo == 1<<63 && !neg) {
		return 0, false
	}
	if neg {
		return -int64(lo), true
	}
	return int64(lo), true
}

func abs64(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}
