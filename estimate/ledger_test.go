package estimate

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/test/testfile"
)

var ledger = flag.Bool("accuracy.ledger", false, "run every guess on and off over all cases, and write "+ledgerFile)

const (
	ledgerFile  = "testdata/guesses.md"
	ledgerBegin = "<!-- ledger: make ledger writes it -->\n"
	ledgerEnd   = "<!-- end of ledger -->\n"
)

// A guessLine is what one guess is worth over the measured cases.
type guessLine struct {
	name         string
	fires        int                 // cases that rest on it, or would if it were made
	models       map[string]struct{} // their families of models
	helps, harms int                 // cases whose error it makes smaller, or larger, by more than 0.01 %: see errorOf
	helped       map[string]float64  // by family of models that it helps, by how much
	harmed       map[string]float64  // by family of models that it harms
	gain         float64             // by which it makes the errors of all cases smaller, in percent each
}

// proven reports whether a guess may be made: it helps five families or more and gains 0.5 % or more a case, and helps
// twice as many cases as it harms.
func proven(families, helps, harms int, gain float64) bool {
	return families >= 5 && helps >= 2*harms && gain >= 0.5
}

// keptAllTheSame are guesses that are made though the ledger does not bear them out, with the reason.
var keptAllTheSame = map[string]string{
	"residual-in-place":  "inference of TorchScript's exports is worse without it",
	"names-of-attention": "inference without lines is worse without it",
	"joined-parts":       "inference without lines is worse without it",
	"one-expression":     "inference without lines is worse without it",
	"bias-table-copy":    "safe of a cell of inference is over its limit without it",
}

// familyOf is what a model's name starts with, up to a digit or an underscore: models of one family are no independent
// witnesses.
func familyOf(name string) string {
	if i := strings.IndexFunc(name, func(r rune) bool { return r == '_' || r >= '0' && r <= '9' }); i > 0 {
		return name[:i]
	}
	return name
}

// An asked is a run of a graph.
type asked struct {
	cellRun
	graph *cellGraph
	model string
}

// errorOf is the sum of the errors of what is allocated and reserved, in percent, with
// some guesses switched off.
func (a *asked) errorOf(t *testing.T, without []string) (float64, *Simulation) {
	opt := a.options
	opt.Without = without
	b, err := Bind(a.graph.open(), opt)
	if err != nil {
		return 100, nil
	}
	sim, err := b.simulateOnce(a.step)
	if err != nil {
		return 100, nil
	}
	off := math.Abs(rel(sim.Peak.Allocated, a.allocated))
	if a.reserved > 0 {
		off += math.Abs(rel(sim.Peak.Reserved, a.reserved))
	}
	return 100 * off, sim
}

// weigh runs a case with each guess that it rests on switched off.
func (a *asked) weigh(t *testing.T, rows []guessRow, add func(name string, with, without float64)) {
	plain, sim := a.errorOf(t, nil)
	if sim == nil {
		return
	}
	fired := map[string]bool{}
	for _, g := range sim.Run.Guesses {
		fired[g.Row] = true
	}
	for _, r := range rows {
		if fired[r.name] {
			without, _ := a.errorOf(t, []string{r.name})
			add(r.name, plain, without)
		}
	}
}

// oneOfAKind returns one run of each kind of a graph: others differ by the optimizer or an allocator's setting, which no
// guess is about.
func oneOfAKind(graphs []cellGraph) (list []asked) {
	for i := range graphs {
		g, seen := &graphs[i], map[string]bool{}
		for _, r := range g.runs {
			key := fmt.Sprint(r.step.Infer, r.step.Precision, r.step.ChannelsLast)
			if g.rec == nil && r.allocated > 0 && r.step.Plan == (program.Plan{}) && !seen[key] {
				seen[key] = true
				model, _, _ := strings.Cut(g.name[strings.IndexByte(g.name, '/')+1:], ".")
				list = append(list, asked{r, g, model})
			}
		}
	}
	return list
}

// TestLedger switches every row of the dialect and every rule of lifetimes on and off, one at a time, over all cases
// that could rest on it, and writes what each is worth.
func TestLedger(t *testing.T) {
	if !*ledger {
		t.Skip("-accuracy.ledger writes the ledger")
	}
	rows, lines := guessRows(), map[string]*guessLine{}
	for _, r := range rows {
		lines[r.name] = &guessLine{name: r.name, models: map[string]struct{}{}, helped: map[string]float64{},
			harmed: map[string]float64{}}
	}
	var mu sync.Mutex
	next := make(chan asked)
	var done sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		done.Go(func() {
			for a := range next {
				a.weigh(t, rows, func(name string, with, without float64) {
					mu.Lock()
					defer mu.Unlock()
					l, family := lines[name], familyOf(a.model)
					l.fires++
					l.models[family] = struct{}{}
					l.gain += without - with
					switch {
					case with < without-0.01:
						l.helps++
						l.helped[family] += without - with
					case with > without+0.01:
						l.harms++
						l.harmed[family] += with - without
					}
				})
			}
		})
	}
	for _, a := range oneOfAKind(cellGraphs(t)) {
		next <- a
	}
	close(next)
	done.Wait()
	var w strings.Builder
	fmt.Fprintln(&w, "| guess | cases that rest on it | families of models | helps | harms | families that it helps "+
		"| gain a case | helps most | harms most |")
	fmt.Fprintln(&w, "|---|---:|---:|---:|---:|---:|---:|---|---|")
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		l := lines[name]
		fmt.Fprintf(&w, "| %s | %d | %d | %d | %d | %d | %.3f %% | %s | %s |\n", l.name, l.fires, len(l.models), l.helps,
			l.harms, len(l.helped), l.gain/max(1, float64(l.fires)), largestTwo(l.helped), largestTwo(l.harmed))
	}
	testfile.Between(t, ledgerFile, ledgerBegin, ledgerEnd).Write(t, w.String())
}

// largestTwo names the families with the two largest sums.
func largestTwo(sums map[string]float64) string {
	names := slices.SortedFunc(maps.Keys(sums), func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	return strings.Join(names[:min(2, len(names))], ", ")
}

// TestLedgerIsKept holds the rows to the ledger that is written down: it has all of them and no others, and bears each
// out, but for those of which it says why they stay.
func TestLedgerIsKept(t *testing.T) {
	ledger := testfile.Between(t, ledgerFile, ledgerBegin, ledgerEnd)
	var seen []string
	for _, line := range strings.Split(strings.TrimSpace(ledger.Text), "\n")[2:] {
		cells := strings.Split(line, "|")
		name := strings.TrimSpace(cells[1])
		number := func(i int) float64 {
			text := strings.Trim(cells[i], " %")
			if text == "-" { // not measured yet
				return 0
			}
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			return n
		}
		seen = append(seen, name)
		proven := proven(int(number(6)), int(number(4)), int(number(5)), number(7))
		switch reason := keptAllTheSame[name]; {
		case !proven && reason == "":
			t.Errorf("%s: made, and the ledger does not bear it out", name)
		case proven && reason != "":
			t.Errorf("%s: an exception that is none: %s", name, reason)
		case reason != "" && !strings.Contains(ledger.After, name):
			t.Errorf("%s: %s does not say why it stays", name, ledgerFile)
		}
	}
	if names := GuessNames(); !slices.Equal(slices.Sorted(slices.Values(names)), seen) {
		t.Errorf("the ledger has %v, the program %v: run make ledger", seen, names)
	}
}
