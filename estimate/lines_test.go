package estimate

import (
	"math"
	"strings"
	"testing"
)

// TestAccuracyOfLines holds the estimate against measured runs of models whose exports say which lines of Python made
// each node.
func TestAccuracyOfLines(t *testing.T) {
	if *graphs != "" {
		t.Skip("a flag says which graphs")
	}
	all := furtherSet{dir: "testdata/lines"}.outcomes(t, "", func(measuredCase) bool { return true })
	summarize(t, all)
	if *onlyModel == "" && *onlyForm == "" && *onlyCase == "" {
		hold(t, all, []limits{
			{"infer fp32", spread{0.01, 0.4, 1.1}, spread{0.5, 5, 0}},
			{"infer bf16", spread{0.05, 0.6, 1}, spread{0.5, 20, 0}},
			{"train fp32", spread{0.05, 0.3, 1}, spread{0.5, 5, 0}},
			{"train bf16", spread{0.05, 0.3, 1}, spread{0.5, 8, 0}},
			{"train amp-bf16", spread{0.05, 0.3, 1}, spread{1, 8, 0}},
		})
	}
}

// What the lines are worth: the same files without them.
func TestLinesAgainstGuesses(t *testing.T) {
	if *graphs != "" || *onlyModel != "" || *onlyForm != "" {
		t.Skip("a flag says which graphs")
	}
	defer func() { *graphs = "" }()
	*graphs = "testdata/lines"
	better := 0
	for _, c := range readCases(t, "testdata/lines/steps.json.gz") {
		if c.Mode != "infer" || c.DType != "fp32" {
			continue
		}
		form := formOf(c.Model)
		var off [2]float64
		for i := range off {
			m := openModel(t, c.Model, form)
			if len(m.Stacks) == 0 {
				t.Fatalf("%s has no lines", c.Model)
			}
			if i == 1 {
				m.Stacks = nil
				for k := range m.Graph.Nodes {
					m.Graph.Nodes[k].Stack = 0
				}
			}
			bound, err := Bind(m, Options{Batch: c.Batch})
			if err != nil {
				t.Fatal(err)
			}
			sim, err := bound.Simulate(c.step())
			if err != nil {
				t.Fatal(err)
			}
			off[i] = 100 * math.Abs(rel(sim.Peak.Allocated, c.PeakAlloc))
			said := false
			prog, err := bound.Program(false)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range prog.Notes {
				said = said || strings.Contains(n, "the lines of its source")
			}
			if said != (i == 0) {
				t.Errorf("%s: a note says that lines were read: %v", c.name(), said)
			}
		}
		if off[0] > off[1]+0.1 {
			t.Errorf("%s: %.2f %% off with the lines of the program, %.2f %% without", c.name(), off[0], off[1])
		}
		if off[0] < 1.1 && off[1] > 4 {
			better++
		}
	}
	if better < 8 {
		t.Errorf("lines make %d cases right that are more than 4 %% off without, wanted at least 8", better)
	}
}
