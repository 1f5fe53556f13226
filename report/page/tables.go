package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// peakSentence says what was live at a run's peak, alone on its page or not; "" where the page's facts say it.
func peakSentence(r *Run, alone bool) string {
	t := r.Timeline
	bytes, at := t.Peak()
	switch {
	case at < 0:
		return "Nothing is ever allocated."
	case alone && !r.Inferred:
		return ""
	}
	e := t.At(at)
	text := fmt.Sprintf("%s live at the peak, in step %d, %s", report.Size(bytes), e.Step, e.Phase)
	if e.Layer != timeline.NoLayer {
		text += ", at " + show(t.Layers[e.Layer])
	}
	text += "."
	if r.Allocated > 0 {
		text += " The allocator's peak: " + report.Size(r.Allocated) + " allocated"
		if r.Reserved > 0 {
			text += ", " + report.Size(r.Reserved) + " reserved"
		}
		text += "."
	}
	if r.Inferred {
		text += " Categories and phases are inferred from the recorded stacks."
	}
	return text
}

// categoryWord is what the report calls a category.
func categoryWord(c timeline.Category) string { return report.CategoryWord(c.String()) }

// A phase is a part of a run, with what is live at its end and at its peak.
type phase struct {
	step      int32
	name      string
	end, peak int64
}

func phases(t *timeline.Source) []phase {
	var out []phase
	var live int64
	for _, e := range t.Each {
		if k := len(out); k == 0 || out[k-1].step != e.Step || out[k-1].name != e.Phase.String() {
			out = append(out, phase{e.Step, e.Phase.String(), live, live})
		}
		live += e.Change()
		p := &out[len(out)-1]
		p.end, p.peak = live, max(p.peak, live)
	}
	return out
}

// timelineTables are the tables of one run, or of two beside each other.
func timelineTables(runs []Run) []Table {
	switch len(runs) {
	case 0:
		return nil
	case 2:
		a, b := &runs[0], &runs[1]
		layers, names := differences(a, b)
		return []Table{{"Differences by category", categoryDifferences(a, b), nil},
			{"Differences by layer, the largest first", layers, names}, {"Differences by phase", phaseDifferences(a, b), nil}}
	}
	layers, names := layerGrid(&runs[0])
	return []Table{{"Layers", layers, names}, {"Phases", phaseGrid(runs[0].Timeline), nil}}
}

// number is what to sort a cell by, "" where it is no number, and how it is shown: whole bytes, as the grids of sizes
// here have them, for people.
func number(s string) (sort, text string) {
	if digits, ok := strings.CutSuffix(s, " B"); ok {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
			return digits, report.Size(n)
		}
	}
	sort = strings.ReplaceAll(s, ",", "")
	if _, err := strconv.ParseFloat(sort, 64); err != nil {
		return "", s
	}
	return sort, s
}

// bytesCell marks a cell as a size in bytes.
func bytesCell(n int64) string { return strconv.FormatInt(n, 10) + " B" }

// layerSum is what a layer takes.
type layerSum struct {
	name                   string
	count                  int64
	total, largest, atPeak int64
}

// layerSums adds up a timeline by layer.
func layerSums(t *timeline.Source) []layerSum {
	sums := make([]layerSum, len(t.Layers)+1)
	for i, l := range t.Layers {
		sums[i].name = l
	}
	sums[len(t.Layers)].name = "no layer"
	of := func(layer int32) *layerSum {
		if layer == timeline.NoLayer {
			return &sums[len(t.Layers)]
		}
		return &sums[layer]
	}
	for _, e := range t.Each {
		if e.Kind == timeline.Alloc {
			s := of(e.Layer)
			s.count++
			s.total += e.Bytes
			s.largest = max(s.largest, e.Bytes)
		}
	}
	if _, at := t.Peak(); at >= 0 {
		for _, e := range t.Live(at) {
			of(e.Layer).atPeak += e.Bytes
		}
	}
	return slices.DeleteFunc(sums, func(s layerSum) bool { return s.count == 0 })
}

// layerGrid is what a run's layers take, with what the model says of them, and their names in the timeline.
func layerGrid(r *Run) (*report.Grid, []string) {
	g := &report.Grid{Columns: []report.Column{{Title: "Layer", File: true}}}
	if r.Modules != nil {
		g.Columns = append(g.Columns, report.Column{Title: "Operator", File: true},
			report.Column{Title: "Output", Code: true},
			report.Column{Title: "Parameters", Right: true}, report.Column{Title: "Saved", Right: true})
	}
	g.Columns = append(g.Columns, report.Column{Title: "At the peak", Right: true},
		report.Column{Title: "Largest", Right: true},
		report.Column{Title: "Allocations", Right: true})
	var names []string
	for _, s := range layerSums(r.Timeline) {
		row := []string{s.name}
		if r.Modules != nil {
			cells := [4]string{}
			if m, ok := r.Modules[s.name]; ok {
				cells = [4]string{m.Operator, m.Output, report.Count(m.Parameters), bytesCell(m.Saved)}
			}
			row = append(row, cells[:]...)
		}
		g.Rows = append(g.Rows, append(row, bytesCell(s.atPeak), bytesCell(s.largest), report.Count(s.count)))
		names = append(names, s.name)
	}
	return g, names
}

func phaseGrid(t *timeline.Source) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "Step", Right: true}, {Title: "Phase"},
		{Title: "Peak", Right: true},
		{Title: "At its end", Right: true}}}
	for _, p := range phases(t) {
		g.Rows = append(g.Rows, []string{strconv.Itoa(int(p.step)), p.name, bytesCell(p.peak), bytesCell(p.end)})
	}
	return g
}

// differences sets the layers of two runs that bear the same name beside each other.
func differences(a, b *Run) (*report.Grid, []string) {
	type pair struct {
		name string
		n    [2]int64
	}
	at := map[string]int{}
	var all []pair
	for i, t := range [2]*timeline.Source{a.Timeline, b.Timeline} {
		for _, s := range layerSums(t) {
			k, ok := at[s.name]
			if !ok {
				k = len(all)
				at[s.name] = k
				all = append(all, pair{name: s.name})
			}
			all[k].n[i] += s.atPeak
		}
	}
	slices.SortStableFunc(all, func(x, y pair) int { return cmp.Compare(abs(y.n[1]-y.n[0]), abs(x.n[1]-x.n[0])) })
	g := &report.Grid{Columns: []report.Column{{Title: "Layer", File: true},
		{Title: show(a.Name), Right: true}, {Title: show(b.Name), Right: true}, {Title: "Difference", Right: true}}}
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.name
		g.Rows = append(g.Rows, []string{p.name, bytesCell(p.n[0]), bytesCell(p.n[1]), bytesCell(p.n[1] - p.n[0])})
	}
	return g, names
}

// phaseDifferences sets the phases of two runs beside each other, as long as both go through the same ones.
func phaseDifferences(a, b *Run) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "Step", Right: true}, {Title: "Phase"},
		{Title: "Peak, " + show(a.Name), Right: true}, {Title: "Peak, " + show(b.Name), Right: true},
		{Title: "Difference", Right: true}}}
	x, y := phases(a.Timeline), phases(b.Timeline)
	for i := 0; i < len(x) && i < len(y) && x[i].step == y[i].step && x[i].name == y[i].name; i++ {
		g.Rows = append(g.Rows, []string{strconv.Itoa(int(x[i].step)), x[i].name, bytesCell(x[i].peak), bytesCell(y[i].peak),
			bytesCell(y[i].peak - x[i].peak)})
	}
	return g
}

func categoryDifferences(a, b *Run) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "Category"}, {Title: show(a.Name), Right: true},
		{Title: show(b.Name), Right: true}, {Title: "Difference", Right: true}}}
	_, ia := a.Timeline.Peak()
	_, ib := b.Timeline.Peak()
	x, y := a.Timeline.ByCategory(ia), b.Timeline.ByCategory(ib)
	var sum [2]int64
	for c := range timeline.NumCategories {
		if x[c] == 0 && y[c] == 0 {
			continue
		}
		sum[0], sum[1] = sum[0]+x[c], sum[1]+y[c]
		g.Rows = append(g.Rows, []string{categoryWord(c), bytesCell(x[c]), bytesCell(y[c]), bytesCell(y[c] - x[c])})
	}
	g.Footer = []string{"all", report.Size(sum[0]), report.Size(sum[1]), report.Size(sum[1] - sum[0])}
	return g
}

func abs(n int64) int64 { return max(n, -n) }
