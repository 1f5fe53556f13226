package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/estimate/torch"
)

// TestDropoutOfDefaultExports counts the dropouts that default exports are read to have had: of nn.TransformerEncoder's
// layers two are on the path, one of them between its products, and one behind a turned result.
func TestDropoutOfDefaultExports(t *testing.T) {
	for model, want := range map[string]int{"encoder": 6, "dropped": 10} {
		b, err := Bind(openGraph(t, "testdata/constructs", model, "dynamo"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		sim, err := b.Simulate(Step{Settings: torch.Settings{Loss: "mean"}})
		if err != nil {
			t.Fatal(err)
		}
		dropped := 0
		for i := range sim.prog.Calls {
			if sim.prog.Calls[i].Op == "dropout" {
				dropped++
			}
		}
		if dropped != want {
			t.Errorf("%s: %d dropouts, wanted %d", model, dropped, want)
		}
	}
}
