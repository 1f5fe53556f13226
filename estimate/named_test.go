package estimate

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover/lifetime"
)

// farOff is from which error of what is allocated on a report must name its cause.
const farOff = 0.03

// off returns the cases of the accuracy tables whose estimate, as it is written down, is further off than farOff.
func off(t *testing.T) (cases []asked) {
	t.Helper()
	f, err := os.Open(figuresFile)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	allocated := map[string]int64{}
	for s := bufio.NewScanner(f); s.Scan(); {
		at := strings.LastIndex(s.Text(), ": ")
		first, _, _ := strings.Cut(s.Text()[at+2:], " ")
		if n, err := strconv.ParseInt(first, 10, 64); err == nil {
			allocated[s.Text()[:at]] = n
		}
	}
	for _, a := range oneOfAKind(askedCases(t)) {
		if n := allocated[a.name]; n > 0 && math.Abs(rel(n, a.measured)) > farOff {
			cases = append(cases, a)
		}
	}
	return cases
}

// ranges are the doubts that are listed with two ends.
var ranges = []string{variables, inPlace, criterion, convolutions, dataDependentSize, frozenBeside, contiguousCopy,
	lostBranch, frozenLayers, sparseTables, ownFunction, absentSiblings, noCheckpoints, frozenAngles,
	lifetime.KeptScores.Name}

// cause returns the guess that makes a case's error, as its report lists it: one that halves it, decided otherwise.
// Where there is none and the file lost something, that is the cause if an export of the same model for training is
// right.
//
// Where it is how long variables live, width is how wide the range is that it is listed with, as a share of the peak.
func (a *asked) cause(t *testing.T) (name string, listed []string, width float64) {
	report := func(form string) *Report {
		if a.dir != "" && graphFileIn(a.dir, a.model, form) == "" {
			return nil
		}
		m := openGraph(t, a.dir, a.model, form)
		r, err := Run(m, Options{Batch: a.batch, BuiltIn: a.dir == "", Step: &a.step, Weigh: true})
		if err != nil || r.Peak == nil {
			t.Errorf("%s: %v", a.name, err)
			return nil
		}
		return r
	}
	r := report(a.form)
	if r == nil {
		return "", nil, 0
	}
	best := math.Abs(rel(r.Peak.Allocated, a.measured)) / 2
	for i := range r.Guesses {
		g := &r.Guesses[i]
		listed = append(listed, g.Name)
		if left := math.Abs(rel(r.Peak.Allocated+g.Bytes, a.measured)); g.Weighed && left <= best {
			name, best = g.Name, left
		}
	}
	for i := range r.Guesses { // of the ranges, the narrowest that the measured figure lies in, or nearly
		g := &r.Guesses[i]
		if !slices.Contains(ranges, g.Name) {
			continue
		}
		from, to := r.Peak.Allocated-g.Fewer, r.Peak.Allocated+g.Bytes
		wide := float64(to-from) / float64(r.Peak.Allocated)
		left := max(rel(from, a.measured), -rel(to, a.measured), 0)
		if left <= math.Abs(rel(r.Peak.Allocated, a.measured))/2 && (name == "" || width > 0 && wide < width) {
			name, width = g.Name, wide
		}
	}
	if name != "" {
		return name, listed, width
	}
	if name == "" && slices.Contains(listed, lostInExport) {
		if full := report(strings.Replace(a.form, "eval", "train", 1)); full != nil && a.form == "ts-eval" &&
			math.Abs(rel(full.Peak.Allocated, a.measured)) <= farOff/2 {
			name = lostInExport
		} else if a.form == "dynamo" {
			if full := report("dynamo-train"); full != nil && math.Abs(rel(full.Peak.Allocated, a.measured)) <= farOff/2 {
				name = lostInExport
			}
		}
	}
	return name, listed, 0
}

// TestErrorsAreNamed counts in how many of the cases that are further off than farOff the report lists the guess that
// makes the error, by way and mode, and holds the documentation to it.
func TestErrorsAreNamed(t *testing.T) {
	needsEveryCase(t)
	cases := off(t)
	names, widths := make([]string, len(cases)), make([]float64, len(cases))
	next := make(chan int)
	var todo sync.WaitGroup
	for range 2 {
		todo.Go(func() {
			for i := range next {
				name, listed, width := cases[i].cause(t)
				names[i], widths[i] = name, width
				if name == "" {
					t.Logf("%s (measured %d) is not named by any of %v", cases[i].name, cases[i].measured, listed)
				}
			}
		})
	}
	for i := range cases {
		next <- i
	}
	close(next)
	todo.Wait()
	type kind struct{ form, mode string }
	type count struct {
		all, named int
		by         map[string]int
	}
	kinds := map[kind]*count{}
	for i, c := range cases {
		mode := "training"
		if c.step.Infer {
			mode = "inference"
		}
		k := kind{c.form, mode}
		if kinds[k] == nil {
			kinds[k] = &count{by: map[string]int{}}
		}
		kinds[k].all++
		if names[i] != "" {
			kinds[k].named++
			kinds[k].by[names[i]]++
		}
	}
	var w strings.Builder
	fmt.Fprint(&w, "\n| export | run | further off than 3 % | named | by |\n|---|---|---:|---:|---|\n")
	all, named := 0, 0
	for _, k := range slices.SortedFunc(maps.Keys(kinds), func(a, b kind) int {
		return cmp.Or(cmp.Compare(a.mode, b.mode), cmp.Compare(a.form, b.form))
	}) {
		c := kinds[k]
		all, named = all+c.all, named+c.named
		var by []string
		for _, name := range slices.SortedFunc(maps.Keys(c.by), func(a, b string) int {
			return cmp.Or(cmp.Compare(c.by[b], c.by[a]), cmp.Compare(a, b))
		}) {
			by = append(by, fmt.Sprintf("%s %d", name, c.by[name]))
		}
		fmt.Fprintf(&w, "| %s | %s | %d | %d | %s |\n", k.form, k.mode, c.all, c.named, strings.Join(by, ", "))
	}
	fmt.Fprintf(&w, "| all | | %d | %d | |\n", all, named)
	widths = slices.DeleteFunc(widths, func(w float64) bool { return w == 0 })
	fmt.Fprintf(&w, "\nThe range that variables are listed with is %.0f %% of the peak wide in the "+
		"median of those cases.\n",
		100*medianOf(widths))
	holdPart(t, "named", w.String())
}
