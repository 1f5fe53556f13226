package estimate

import (
	"fmt"

	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/estimate/lifetime"
)

// A guessRow is what is said of a guess, be it about a library's way of writing or about Python's variables.
type guessRow struct {
	name, takes string
	unproven    bool
}

// guessRows are all of them.
func guessRows() (rows []guessRow) {
	for _, r := range dialect.Rows {
		rows = append(rows, guessRow{r.Name, r.Takes + " taken for " + r.For, r.Unproven})
	}
	for _, r := range lifetime.Rules {
		rows = append(rows, guessRow{r.Name, r.Takes, r.Unproven})
	}
	return rows
}

// unproven are the names of the guesses that are not made.
func unproven() map[string]bool {
	names := map[string]bool{}
	for _, r := range guessRows() {
		if r.unproven {
			names[r.name] = true
		}
	}
	return names
}

// passed lists the guesses that a run could have made and did not, each with what it weighs: the run is simulated once
// more with it alone.
func (b *Bound) passed(s Step, sim *Simulation) (list []Guess, err error) {
	s.Record = false
	for _, row := range guessRows() {
		g := Guess{Name: row.name, Takes: row.takes}
		for _, passed := range sim.Run.Passed {
			if passed.Row == row.name {
				g.Places++
			}
		}
		if g.Places == 0 {
			continue
		}
		alone := map[string]bool{row.name: true}
		with := &Bound{a: b.a, ws: b.ws, constants: b.constants, without: b.without, with: alone, tied: b.tied}
		other, err := with.simulateOnce(s)
		if err != nil {
			return nil, err
		}
		g.Bytes = other.Peak.Allocated - sim.Peak.Allocated
		list = append(list, g)
	}
	return list, nil
}

// note says so in words.
func (g Guess) note() Note {
	weight := "without a larger peak"
	if mib := float64(g.Bytes) / (1 << 20); mib >= 0.005 || mib <= -0.005 {
		weight = fmt.Sprintf("%+.2f MiB at the peak", mib)
	}
	return Note{Info, fmt.Sprintf("not guessed, as too few models bear it out: %s (%s; %s, %s); the upper bound has room for it",
		g.Takes, g.Name, plural(g.Places, "place"), weight)}
}
