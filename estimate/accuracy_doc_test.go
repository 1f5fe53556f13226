package estimate

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/testfile"
)

var writeDoc = flag.Bool("accuracy.write", false, "write the tables of docs/ACCURACY.md")

const (
	docFile  = "../docs/ACCURACY.md"
	docBegin = "<!-- tables: make accuracy writes them -->\n"
	docEnd   = "<!-- end of tables -->\n"
)

// The sections that tests hold to what they compute, by their titles.
const (
	builtInTitle = "Built-in models, exports made for training (ts-train, else dynamo-train)"
	unseenTitle  = "35 further models"
	trainedTitle = ", training from dynamo-train exports"
)

// holdDoc fails the test where a section of the documentation is not what is computed.
func holdDoc(t *testing.T, title string, all []outcome) {
	t.Helper()
	b, err := os.ReadFile(docFile)
	if err != nil {
		t.Fatal(err)
	}
	var w strings.Builder
	if section(&w, title, all); !strings.Contains(string(b), w.String()) {
		t.Errorf("%s: %q is not what is computed: make accuracy writes it", docFile, title)
	}
}

// TestAccuracyDoc writes the measured errors into the documentation when asked to, and otherwise only sees that the
// place for them is there.
func TestAccuracyDoc(t *testing.T) {
	tables := testfile.Between(t, docFile, docBegin, docEnd)
	if !*writeDoc {
		return
	}
	var w strings.Builder
	built := outcomes(t, func(measuredCase) bool { return true })
	section(&w, builtInTitle, built)
	memTracker(&w, built)
	for _, form := range []string{"dynamo-train", "ts-eval", "dynamo"} {
		*onlyForm = form
		section(&w, "Built-in models, training from "+form+" exports",
			outcomes(t, func(c measuredCase) bool { return c.Mode == "train" && c.DType == "fp32" }))
	}
	cases := *casesFile
	*onlyForm, *graphs, *casesFile = "", "testdata/unseen", "testdata/unseen/steps.json.gz"
	section(&w, unseenTitle, outcomes(t, func(measuredCase) bool { return true }))
	*graphs, *casesFile = "", cases
	for _, s := range furtherSets {
		section(&w, s.title, s.outcomes(t, "", func(measuredCase) bool { return true }))
		section(&w, s.title+trainedTitle, s.outcomes(t, "dynamo-train",
			func(c measuredCase) bool { return c.Mode == "train" }))
	}
	tables.Write(t, w.String())
}

func section(w *strings.Builder, title string, all []outcome) {
	fmt.Fprintf(w, "\n### %s\n\n", title)
	fmt.Fprintln(w, "| run | cases | allocated: median | 90 % | worst | reserved: median | 90 % | worst |")
	fmt.Fprintln(w, "|---|---:|---:|---:|---:|---:|---:|---:|")
	kinds, groups := byKind(all)
	for _, k := range kinds {
		a, r := spreadOf(groups[k], allocated), spreadOf(groups[k], reserved)
		fmt.Fprintf(w, "| %s | %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% | %.2f %% |\n", k, len(groups[k]),
			a.median, a.p90, a.worst, r.median, r.p90, r.worst)
	}
	d := spreadOf(all, func(o outcome) float64 { return o.device })
	fmt.Fprintf(w, "\n`device_bytes` against nvidia-smi: median %.2f %%, 90 %% within %.2f %%.\n", d.median, d.p90)
	fmt.Fprintf(w, "`upper_bound_bytes` %v;\n", boundsOf(all, upper))
	fmt.Fprintf(w, "`likely_bytes` %v; `safe_bytes` %v.\n", boundsOf(all, likely), boundsOf(all, safe))
	fmt.Fprintln(w, "\nThe ten worst by allocated:")
	fmt.Fprintln(w, "\n| case | export | allocated | reserved |\n|---|---|---:|---:|")
	for _, o := range worstOf(all, 10) {
		fmt.Fprintf(w, "| %s | %s | %+.2f %% | %+.2f %% |\n", o.c.name(), o.form, 100*o.alloc, 100*o.reserved)
	}
}

// memTracker sets PyTorch's own tracker beside the estimate on the cases that it was run on.
func memTracker(w *strings.Builder, all []outcome) {
	fmt.Fprint(w, "\n### Beside PyTorch's MemTracker, on the same cases\n\n| run | cases | memestimate: median | 90 % | "+
		"MemTracker: median | 90 % |\n|---|---:|---:|---:|---:|---:|\n")
	groups := map[string][]outcome{}
	for _, o := range all {
		if o.c.MemTracker > 0 {
			groups[o.c.Mode] = append(groups[o.c.Mode], o)
		}
	}
	for _, mode := range []string{"train", "infer"} {
		g := groups[mode]
		ours, theirs := spreadOf(g, allocated), spreadOf(g, func(o outcome) float64 {
			return rel(o.c.MemTracker,
				o.c.PeakAlloc)
		})
		fmt.Fprintf(w, "| %s | %d | %.2f %% | %.2f %% | %.2f %% | %.2f %% |\n", mode, len(g), ours.median, ours.p90,
			theirs.median, theirs.p90)
	}
}
