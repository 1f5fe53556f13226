package shape

import (
	"fmt"
	"slices"
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
		for _, s := range later {
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
		if s == "" || s == first || slices.Contains(later, s) || l.rank < 2 && !looksLikeBatch(s) {
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
		if l.dim.Known && l.rank > 1 && l.dim.Size != n && !b.given(l.name) {
			b.f.notes.add(fmt.Sprintf("batch: input %q has a fixed first dimension of %d, which stays", l.name, l.dim.Size))
		}
	}
	return nil
}

// given reports whether the user gave the shape of an input.
func (b *binder) given(input string) bool { _, ok := b.f.opt.Inputs[input]; return ok }

// A lead is the first dimension of an input.
type lead struct {
	input  int // of Graph.Inputs
	name   string
	dim    onnxload.Dim
	symbol string // "" when dim is not a single unbound symbol
	rank   int
}

// leads returns the first dimension of each input that has one, and the symbols that
// stand in later places, in order.
func (b *binder) leads() (leads []lead, later []string) {
	seen := map[string]bool{}
	for i, t := range b.inputs {
		if t.Kind != onnxload.TensorType || len(t.Dims) == 0 {
			continue
		}
		l := lead{input: i, name: b.f.m.NameOf(b.f.m.Graph.Inputs[i]), dim: t.Dims[0], rank: len(t.Dims)}
		if open := b.unsized(l.dim); len(open) == 1 && open[0] == strings.TrimSpace(l.dim.Param) {
			l.symbol = open[0]
		}
		leads = append(leads, l)
		for _, d := range t.Dims[1:] {
			for _, s := range b.unsized(d) {
				if !seen[s] {
					seen[s] = true
					later = append(later, s)
				}
			}
		}
	}
	return leads, later
}

// batchWithoutSymbol handles inputs none of which begins with an open symbol: the
// batch may be an expression, bound already, or fixed.
func (b *binder) batchWithoutSymbol(leads []lead) error {
	n := b.f.opt.Batch
	var fixed *lead
	for i := range leads {
		l := &leads[i]
		size, ok := b.size(l.dim)
		switch {
		case !ok:
			solved, err := b.solve(l.dim, n, batchOption)
			if err != nil || solved {
				return err
			}
		case size == n:
			return nil
		case !l.dim.Known: // it has a symbol, whose size another option gave
			_, err := b.solve(l.dim, n, batchOption)
			return err
		case fixed == nil:
			fixed = l
		}
	}
	switch {
	case fixed == nil:
		return batchOption.fail("no input has a batch dimension")
	case b.given(fixed.name):
		return batchOption.fail("is %d, and the shape given for input %q begins with another size", n, fixed.name)
	}
	return batchOption.fail("the file fixes input %q to %v; a shape given for that input can change its first dimension",
		fixed.name, b.f.fromDeclared(b.inputs[fixed.input]).Shape)
}

// looksLikeBatch reports whether people call their batch dimension so.
func looksLikeBatch(name string) bool {
	switch name = strings.ToLower(name); name {
	case "n", "b", "bs", "bsz", "nb":
		return true
	}
	return strings.Contains(name, "batch")
}
