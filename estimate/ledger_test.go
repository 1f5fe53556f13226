package estimate

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/estimate/fromonnx/dialect"
	"github.com/memestimate/memestimate/estimate/lifetime"
)

var ledger = flag.String("accuracy.ledger", "", "run every guess on and off over all measured cases, and write what each is worth to this file")

// A guessLine is what one guess is worth over the measured cases.
type guessLine struct {
	name         string
	fires        int                 // cases that rest on it
	helps, harms int                 // cases whose error it makes smaller, or larger, by more than 0.01 %: those of what is allocated and reserved together
	models       map[string]struct{} // families of models that it helps
	gain         float64             // by which it makes the errors of all cases smaller, in percent each
}

// familyOf is what a model's name starts with, up to a digit or an underscore: models of one family are no independent witnesses.
func familyOf(name string) string {
	if i := strings.IndexFunc(name, func(r rune) bool { return r == '_' || r >= '0' && r <= '9' }); i > 0 {
		return name[:i]
	}
	return name
}

// TestLedger switches every row of the dialect and every rule of lifetimes off, one at a time, over all cases that rest on it.
func TestLedger(t *testing.T) {
	if *ledger == "" {
		t.Skip("-accuracy.ledger FILE writes the ledger")
	}
	lines := map[string]*guessLine{}
	for _, r := range dialect.Rows {
		lines[r.Name] = &guessLine{name: r.Name, models: map[string]struct{}{}}
	}
	for _, r := range lifetime.Rules {
		lines[r.Name] = &guessLine{name: r.Name, models: map[string]struct{}{}}
	}
	var mu sync.Mutex
	cases := askedCases(t)
	next := make(chan asked)
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for a := range next {
				off := func(without ...string) (float64, *Simulation) {
					b, err := Bind(openGraph(t, a.dir, a.model, a.form), Options{Batch: a.batch, Without: without})
					if err != nil {
						return 100, nil
					}
					sim, err := b.Simulate(a.step)
					if err != nil {
						return 100, nil
					}
					return 100*math.Abs(rel(sim.Peak.Allocated, a.measured)) + 100*math.Abs(rel(sim.Peak.Reserved, a.reserved)), sim
				}
				with, sim := off()
				if sim == nil {
					continue
				}
				rows := map[string]bool{"numbered-modules": true, "next-turn": true}
				for _, g := range sim.Run.Guesses {
					rows[g.Row] = true
				}
				for _, name := range slices.Sorted(maps.Keys(rows)) {
					without, _ := off(name)
					mu.Lock()
					l := lines[name]
					if l == nil {
						t.Errorf("a guess %q without a row", name)
						mu.Unlock()
						continue
					}
					l.fires++
					l.gain += without - with
					switch {
					case with < without-0.01:
						l.helps++
						l.models[familyOf(a.model)] = struct{}{}
					case with > without+0.01:
						l.harms++
					}
					mu.Unlock()
				}
			}
		})
	}
	seen := map[string]bool{}
	for _, a := range cases {
		// One case for each kind of run of a graph: others differ by the optimizer or an allocator's setting, which no guess is about.
		key := fmt.Sprint(a.dir, a.model, a.form, a.step.Infer, a.step.Precision, a.step.ChannelsLast)
		if a.measured > 0 && a.reserved > 0 && a.step.MemoryLimit == 0 && !seen[key] {
			seen[key] = true
			next <- a
		}
	}
	close(next)
	done.Wait()
	var w strings.Builder
	fmt.Fprintln(&w, "| guess | cases that rest on it | helps | harms | families of models that it helps | gain a case |")
	fmt.Fprintln(&w, "|---|---:|---:|---:|---:|---:|")
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		l := lines[name]
		fmt.Fprintf(&w, "| %s | %d | %d | %d | %d | %.3f %% |\n", l.name, l.fires, l.helps, l.harms, len(l.models), l.gain/max(1, float64(l.fires)))
	}
	if err := os.WriteFile(*ledger, []byte(w.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
