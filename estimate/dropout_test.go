package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/dialect"
	"github.com/memestimate/memestimate/estimate/torch"
)

// TestDropoutOfDefaultExports counts the dropouts that default exports are read to have had, and whether they are taken
// to drop something: of nn.TransformerEncoder's layers two are on the path, one of them between its products, and one
// behind a turned result; timm's blocks have layers for dropout of nothing.
func TestDropoutOfDefaultExports(t *testing.T) {
	for model, want := range map[string]struct {
		row  *dialect.Row
		made bool
		n    int
	}{
		"encoder":  {dialect.Dropout, true, 6},
		"dropped":  {dialect.Dropout, true, 10},
		"timm_vit": {dialect.DropoutOfTokens, false, 8},
	} {
		b, err := Bind(openGraph(t, "testdata/constructs", model, "dynamo"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := b.Simulate(Step{Settings: torch.Settings{Loss: "mean"}})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, g := range sim.prog.Guesses {
			count["made "+g.Row]++
		}
		for _, g := range sim.prog.Passed {
			count["passed "+g.Row]++
		}
		dropped := 0
		for i := range sim.prog.Calls {
			if sim.prog.Calls[i].Op == "dropout" {
				dropped++
			}
		}
		key, other := "passed "+want.row.Name, "made "+want.row.Name
		if want.made {
			key, other = other, key
		}
		if count[key] != want.n || count[other] != 0 || want.made != (dropped == want.n) || !sim.prog.Restored {
			t.Errorf("%s: %v and %d dropouts, wanted %d %s", model, count, dropped, want.n, key)
		}
	}
}
