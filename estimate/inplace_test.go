package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/must"
)

// A ReLU that a run takes to write over its argument does so in the table of layers too. The table goes further: of
// what the run leaves to the style of code, whether a ReLU behind a linear layer works in place, it takes the
// definition of modelsize_estimate.
func TestReLUsInPlaceAgree(t *testing.T) {
	seen := 0
	for _, m := range models.Names() {
		raw, err := models.Open(m)
		must.OK(t, err)
		g := readModel(t, raw, "")
		b, err := Bind(g, Options{Batch: 2})
		if err != nil {
			continue // it has other dimensions to bind
		}
		p, err := b.Program(true)
		must.OK(t, err)
		for i := range p.Calls {
			c := &p.Calls[i]
			if n := b.programs.nodes[c.Origin]; c.Op == "relu" && c.Args.Inplace && n.Op == "Relu" {
				if seen++; !b.analysis.Overwrites(n) {
					t.Errorf("%s: %q works in place in the run and not in the table", m, n.Name)
				}
			}
		}
	}
	if seen < 100 {
		t.Errorf("only %d ReLUs in place", seen)
	}
}
