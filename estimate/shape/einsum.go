package shape

import (
	"fmt"
	"slices"
	"strings"
)

// einsum follows the attribute equation: one term an input, separated by commas,
// each a letter an axis and "..." for the axes that are left; then "->" and the result's
// term. Without "->" the result has the ellipsis and the letters that occur
// once, in alphabetical order (ONNX: "implicit form", as numpy's).
func einsum(c *call) {
	eq := strings.ReplaceAll(c.attrStr("equation", ""), " ", "")
	if eq == "" {
		c.fail("attribute equation is missing")
	}
	left, right, explicit := strings.Cut(eq, "->")
	terms := strings.Split(left, ",")
	if len(terms) != len(c.node.In) {
		c.fail("equation %q has %d terms for %d inputs", eq, len(terms), len(c.node.In))
	}
	c.need(len(terms))
	e := einsumDims{}
	for i, text := range terms {
		t, err := parseEinsumTerm(text)
		if err != nil {
			c.fail("equation %q: %w", eq, err)
		}
		if err := e.add(t, c.shape(i)); err != nil {
			c.fail("equation %q, input %d: %w", eq, i, err)
		}
	}
	out := einsumTerm{ellipsis: -1}
	if explicit {
		var err error
		if out, err = parseEinsumTerm(right); err != nil {
			c.fail("equation %q: %w", eq, err)
		}
		for i, l := range out.letters {
			if e.count[l] == 0 || slices.Contains(out.letters[:i], l) {
				c.fail("equation %q: letter %q of the result is in no input, or twice in the result", eq, string(l))
			}
		}
	} else {
		if e.hasEllipsis {
			out.ellipsis = 0
		}
		for l := range e.count {
			if e.count[l] == 1 {
				out.letters = append(out.letters, byte(l))
			}
		}
	}
	c.out(0, c.commonElem(), e.shape(c, out))
}

// An einsumTerm is one operand: its letters, and the number of them before the ellipsis, -1
// without one.
type einsumTerm struct {
	letters  []byte
	ellipsis int
}

func parseEinsumTerm(text string) (einsumTerm, error) {
	t := einsumTerm{ellipsis: -1}
	for i := 0; i < len(text); i++ {
		switch l := text[i]; {
		case 'a' <= l && l <= 'z' || 'A' <= l && l <= 'Z':
			t.letters = append(t.letters, l)
		case strings.HasPrefix(text[i:], "...") && t.ellipsis < 0:
			t.ellipsis = len(t.letters)
			i += 2
		default:
			return t, fmt.Errorf("%q is no term", text)
		}
	}
	return t, nil
}

// An einsumDims collects what the operands say of letters and of the ellipsis.
type einsumDims struct {
	count       [256]int // occurrences in the operands
	known       [256]bool
	size        [256]Dim
	hasEllipsis bool
	ellipsis    Shape // of all operands, broadcast
	unranked    bool  // an operand with an ellipsis has an unknown rank
}

// add takes one operand in. Letters stretch from 1, as numpy lets them.
func (e *einsumDims) add(t einsumTerm, s Shape) error {
	for _, l := range t.letters {
		e.count[l]++
	}
	if t.ellipsis >= 0 {
		if !e.hasEllipsis {
			e.ellipsis = Of()
		}
		e.hasEllipsis = true
		e.unranked = e.unranked || !s.Ranked
	}
	if !s.Ranked {
		return nil
	}
	rest := len(s.Dims) - len(t.letters)
	if rest < 0 || rest > 0 && t.ellipsis < 0 {
		return fmt.Errorf("%v has %d dimensions, the term has %d", s, len(s.Dims), len(t.letters))
	}
	for i, l := range t.letters {
		at := i
		if t.ellipsis >= 0 && i >= t.ellipsis {
			at += rest
		}
		d := s.Dims[at]
		if e.known[l] {
			var err error
			if d, err = broadcastDim(e.size[l], d); err != nil {
				return fmt.Errorf("letter %q: %w", string(l), err)
			}
		}
		e.known[l], e.size[l] = true, d
	}
	if t.ellipsis >= 0 {
		var err error
		e.ellipsis, err = broadcast(e.ellipsis, Of(s.Dims[t.ellipsis:t.ellipsis+rest]...))
		return err
	}
	return nil
}

// shape returns the dimensions of the result's term.
func (e *einsumDims) shape(c *call, t einsumTerm) Shape {
	if t.ellipsis >= 0 && e.unranked {
		return Shape{}
	}
	out := []Dim{}
	for i := range len(t.letters) + 1 {
		if i == t.ellipsis {
			out = append(out, e.ellipsis.Dims...)
		}
		if i == len(t.letters) {
			break
		}
		if l := t.letters[i]; e.known[l] {
			out = append(out, e.size[l])
		} else {
			out = append(out, unknownSize)
		}
	}
	return Of(out...)
}
