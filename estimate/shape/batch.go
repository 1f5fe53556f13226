package shape

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// batch applies Options.Batch: it binds the symbol that counts samples.
//
// That is a symbol named like a batch where an input has one, else the leading symbol of the
// first input that begins with one, whatever it is called. The leading symbols of other
// inputs with two dimensions or more are bound with it, unless the same symbol also
// stands in a later place of some input, where a batch never is: [sequence] beside
// [batch, sequence] keeps its sequence open.
func (b *binder) batch() error {
	n := b.f.opt.Batch
	if n == 0 {
		return nil
	}
	if n < 0 {
		return batchOption.fail("%d is no number of samples", n)
	}
	leads, later := b.leads()
	first := ""
	for _, l := range leads {
		if l.symbol != "" && looksLikeBatch(l.symbol) {
			first = l.symbol
			break
		}
	}
	if first == "" {
		for _, s := range later.order {
			if strings.Contains(strings.ToLower(s), "batch") {
				return b.set(s, n, batchOption) // what leads is something else, a sequence perhaps
			}
		}
	}
	if first == "" {
		for _, l := range leads {
			if l.symbol != "" {
				first = l.symbol
				break
			}
		}
	}
	if first == "" {
		return b.batchWithoutSymbol(leads)
	}
	if err := b.set(first, n, batchOption); err != nil {
		return err
	}
	for _, l := range leads {
		s := l.symbol
		if s == "" || s == first || later.has[s] || l.rank < 2 && !looksLikeBatch(s) {
			continue
		}
		if _, ok := b.sizes[s]; ok {
			continue
		}
		if err := b.set(s, n, batchOption); err != nil {
			return err
		}
		b.f.notes.add(fmt.Sprintf("batch: also binds %s, the first dimension of input %q", show(s), l.name))
	}
	for _, l := range leads {
		if size, ok := l.dim.Int(); ok && l.rank > 1 && size != n && !b.given(l.name) {
			b.f.notes.add(fmt.Sprintf("batch: input %q has a fixed first dimension of %d, which stays", l.name, size))
		}
	}
	return nil
}

// given reports whether the user gave the shape of an input.
func (b *binder) given(input string) bool { _, ok := b.f.opt.Inputs[input]; return ok }

// A lead is the first dimension of an input.
type lead struct {
	name   string
	dim    Dim
	symbol string // "" when dim is not a single unbound symbol
	rank   int
}

// A symbolSet remembers the order in which symbols were met.
type symbolSet struct {
	has   map[string]bool
	order []string
}

// leads returns the first dimension of each input that has one, and the symbols that
// stand in later places.
func (b *binder) leads() ([]lead, symbolSet) {
	var leads []lead
	later := symbolSet{has: map[string]bool{}}
	for _, id := range b.f.m.Graph.Inputs {
		t := b.f.typeOf(id)
		if t.Kind != onnxload.TensorType || len(t.Shape.Dims) == 0 {
			continue
		}
		l := lead{name: b.f.m.NameOf(id), dim: t.Shape.Dims[0], rank: len(t.Shape.Dims)}
		if s, ok := l.dim.symbol(); ok {
			if _, bound := b.sizes[s]; !bound {
				l.symbol = s
			}
		}
		leads = append(leads, l)
		for _, d := range t.Shape.Dims[1:] {
			d.Symbols(func(s string) {
				if !later.has[s] {
					later.has[s] = true
					later.order = append(later.order, s)
				}
			})
		}
	}
	return leads, later
}

// batchWithoutSymbol handles inputs none of which begins with an open symbol: the
// batch may be an expression, bound already, or fixed.
func (b *binder) batchWithoutSymbol(leads []lead) error {
	n := b.f.opt.Batch
	fixed := ""
	for _, l := range leads {
		size, ok := l.dim.Int()
		switch {
		case !ok:
			solved, err := b.solve(l.dim, n, batchOption)
			if err != nil || solved {
				return err
			}
		case size == n:
			return nil
		case fixed == "":
			fixed = l.name
		}
	}
	if fixed == "" {
		return batchOption.fail("no input has a batch dimension")
	}
	if b.given(fixed) {
		return batchOption.fail("is %d, and the shape given for input %q begins with another size", n, fixed)
	}
	for _, id := range b.f.m.Graph.Inputs {
		if b.f.m.NameOf(id) == fixed {
			return batchOption.fail("the file fixes input %q to %v; a shape given for that input can change its first dimension",
				fixed, b.f.typeOf(id).Shape)
		}
	}
	return nil
}

// looksLikeBatch reports whether people call their batch dimension so.
func looksLikeBatch(name string) bool {
	switch name = strings.ToLower(name); name {
	case "n", "b", "bs", "bsz", "nb":
		return true
	}
	return strings.Contains(name, "batch")
}
