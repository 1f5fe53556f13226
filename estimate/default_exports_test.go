package estimate

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
)

// offInDefault is from which error on the cause of one of an export that was not made for training stands in
// docs/ACCURACY.md.
const offInDefault = 0.02

// TestDefaultExportsAreExplained takes every measured case of the built-in models from exports as a user makes them
// without asking for training. Where one is further off than offInDefault it says what the export's loss costs: the
// prediction from the same exporter's training export less this one, and how much of it is dropout, which is the
// training export simulated with its dropout taken out. What is left then is no matter of the export.
func TestDefaultExportsAreExplained(t *testing.T) {
	needsEveryCase(t)
	if *onlyForm != "" || *graphs != "" {
		t.Skip("a flag says which graphs")
	}
	defer func() { *onlyForm = "" }()
	var w strings.Builder
	fmt.Fprint(&w, "\n| case | export | off | bytes | lost in the export | of it dropout | the rest | left |\n"+
		"|---|---|---:|---:|---:|---:|---|---:|\n")
	all, far, explained := 0, 0, 0
	for _, form := range []string{"ts-eval", "dynamo"} {
		full := strings.Replace(strings.TrimSuffix(form, "-eval")+"-train", "-train-train", "-train", 1)
		for _, c := range readCases(t, *casesFile) {
			if *onlyForm = form; formOf(c.Model) == "" {
				continue
			}
			all++
			got := allocatedOf(t, c, openModel(t, c.Model, form))
			off := rel(got, c.PeakAlloc)
			if math.Abs(off) <= offInDefault {
				continue
			}
			far++
			whole := openModel(t, c.Model, full)
			trained := allocatedOf(t, c, whole)
			rest := rewritten(openModel(t, c.Model, form), whole)
			withoutDropout(whole)
			plain := allocatedOf(t, c, whole)
			lost, dropout := trained-got, trained-plain
			left := rel(got+lost, c.PeakAlloc)
			if math.Abs(left) <= offInDefault {
				explained++
			}
			named := "-"
			if 5*max(lost-dropout, dropout-lost) > max(lost, -lost) { // a fifth of it
				named = rest
			}
			fmt.Fprintf(&w, "| %s | %s | %+.1f %% | %+d | %+d | %+d | %s | %+.2f %% |\n", c.name(), form, 100*off,
				got-c.PeakAlloc, -lost, -dropout, named, 100*left)
		}
	}
	fmt.Fprintf(&w, "\n%d cases, %d of them further off than 2 %%; explained to within 2 %%: %d.\n", all, far, explained)
	holdPart(t, "default exports", w.String())
}

// allocatedOf is what a case allocates by a graph.
func allocatedOf(t *testing.T, c measuredCase, m *onnxload.Model) int64 {
	t.Helper()
	b, err := Bind(m, Options{Batch: c.Batch, BuiltIn: true})
	if err != nil {
		t.Fatalf("%s: %v", c.name(), err)
	}
	sim, err := b.Simulate(c.step())
	if err != nil {
		t.Fatalf("%s: %v", c.name(), err)
	}
	return sim.Peak.Allocated
}

// withoutDropout makes each dropout of a graph hand on its input.
func withoutDropout(m *onnxload.Model) {
	for i := range m.Graph.Nodes {
		if n := &m.Graph.Nodes[i]; n.Op == "Dropout" {
			n.Op, n.In, n.Out, n.Attrs = "Identity", n.In[:1], n.Out[:1], nil
		}
	}
}

// rewritten lists the operators that a graph has fewer of than the training export, or more, without those that only
// arrange what others compute.
func rewritten(got, whole *onnxload.Model) string {
	counts := map[string]int{}
	for _, n := range whole.Graph.Nodes {
		counts[n.Op]--
	}
	for _, n := range got.Graph.Nodes {
		counts[n.Op]++
	}
	shapes := []string{"Cast", "CastLike", "Concat", "Constant", "Dropout", "Expand", "Gather", "Identity", "Range",
		"Reshape", "Shape", "Slice", "Squeeze", "Unsqueeze"}
	var names []string
	for _, op := range slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[a], counts[b]), cmp.Compare(a, b))
	}) {
		if counts[op] != 0 && !slices.Contains(shapes, op) {
			names = append(names, fmt.Sprintf("%s %+d", op, counts[op]))
		}
	}
	return strings.Join(names[:min(len(names), 4)], ", ")
}
