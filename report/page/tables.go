package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/estimate/timeline"
	"github.com/memestimate/memestimate/report"
)

// A table is one of the page's, ready to be written.
type table struct {
	Title   string
	Columns []report.Column
	Rows    [][]cell
	Footer  []cell
	More    int // rows left out
}

// A cell is text, with the number to sort it by where it is one.
type cell struct {
	Text   string
	Number string // empty where it is none
	Right  bool
}

// runView is what the page says of a run without any script.
type runView struct {
	Name       string
	Peak       string
	Where      string
	Allocated  string
	Reserved   string
	Inferred   bool
	Events     string
	Categories [][3]string // name, size, share at the peak
	Phases     [][4]string // step, phase, at its end, peak
}

func runOf(r *Run) runView {
	t := r.Timeline
	bytes, at := t.Peak()
	v := runView{Name: show(r.Name), Peak: report.Size(bytes), Where: "nothing is ever allocated", Inferred: r.Inferred,
		Events: report.Count(int64(len(t.Events)))}
	if r.Allocated > 0 {
		v.Allocated = report.Size(r.Allocated)
	}
	if r.Reserved > 0 {
		v.Reserved = report.Size(r.Reserved)
	}
	if at >= 0 {
		e := &t.Events[at]
		v.Where = fmt.Sprintf("in step %d, %s", e.Step, e.Phase)
		if e.Layer != timeline.NoLayer {
			v.Where += ", at " + show(t.Layers[e.Layer])
		}
	}
	for c, n := range t.ByCategory(at) {
		if n > 0 {
			v.Categories = append(v.Categories, [3]string{timeline.Category(c).String(), report.Size(n),
				strconv.FormatFloat(float64(n)/float64(bytes)*100, 'f', 1, 64) + " %"})
		}
	}
	v.Phases = phases(t)
	return v
}

// phases lists each phase with what is live at its end and at its peak.
func phases(t *timeline.Timeline) [][4]string {
	var out [][4]string
	var live, peak int64
	flush := func(e *timeline.Event) {
		out = append(out, [4]string{strconv.Itoa(int(e.Step)), e.Phase.String(), report.Size(live), report.Size(peak)})
	}
	for i := range t.Events {
		e := &t.Events[i]
		if i > 0 && (t.Events[i-1].Step != e.Step || t.Events[i-1].Phase != e.Phase) {
			flush(&t.Events[i-1])
			peak = live
		}
		switch e.Kind {
		case timeline.Alloc:
			live += e.Bytes
		case timeline.Free:
			live -= e.Bytes
		}
		peak = max(peak, live)
	}
	if len(t.Events) > 0 {
		flush(&t.Events[len(t.Events)-1])
	}
	return out
}

func tables(p *Page) ([]table, error) {
	var out []table
	for i := range p.Runs {
		title := "Layers"
		if len(p.Runs) > 1 {
			title = "Layers, " + show(p.Runs[i].Name)
		}
		out = append(out, tableOf(title, layerGrid(p.Runs[i].Timeline)))
	}
	if len(p.Runs) == 2 {
		c := tableOf("Differences by layer, the largest first", differences(&p.Runs[0], &p.Runs[1]))
		out = append([]table{tableOf("Differences by category", categoryDifferences(&p.Runs[0], &p.Runs[1])), c}, out...)
	}
	for _, t := range p.Tables {
		if t.Grid == nil {
			return nil, fmt.Errorf("page: table %q has no grid", t.Title)
		}
		out = append(out, tableOf(t.Title, t.Grid))
	}
	return out, nil
}

// tableOf escapes a grid and finds its numbers.
func tableOf(title string, g *report.Grid) table {
	t := table{Title: clean(title)}
	for _, c := range g.Columns {
		c.Title = clean(c.Title)
		t.Columns = append(t.Columns, c)
	}
	for i, s := range g.Footer {
		t.Footer = append(t.Footer, cell{Text: clean(s), Right: g.Columns[i].Right})
	}
	for i, r := range g.Rows {
		if i == maxRows {
			t.More = len(g.Rows) - maxRows
			break
		}
		cells := make([]cell, len(r))
		for k, s := range r {
			cells[k] = cell{Text: clean(s), Right: g.Columns[k].Right}
			switch {
			case g.Columns[k].File && s != "":
				cells[k].Text = show(s)
			case g.Columns[k].Right:
				cells[k].Number, cells[k].Text = number(s)
			}
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// number is what to sort a cell by. Whole bytes, as the grids of sizes here have
// them, are shown for people.
func number(s string) (sort, text string) {
	if b, ok := cutBytes(s); ok {
		return strconv.FormatInt(b, 10), report.Size(b)
	}
	digits := make([]byte, 0, len(s))
	for i := range len(s) {
		if s[i] != ',' {
			digits = append(digits, s[i])
		}
	}
	if _, err := strconv.ParseFloat(string(digits), 64); err != nil {
		return "", s
	}
	return string(digits), s
}

// bytesCell marks a cell as a size in bytes.
func bytesCell(n int64) string { return strconv.FormatInt(n, 10) + " B" }

func cutBytes(s string) (int64, bool) {
	if len(s) < 3 || s[len(s)-2:] != " B" {
		return 0, false
	}
	n, err := strconv.ParseInt(s[:len(s)-2], 10, 64)
	return n, err == nil
}

// layerSum is what a layer takes.
type layerSum struct {
	name                   string
	count                  int64
	total, largest, atPeak int64
}

// layerSums adds up a timeline by layer.
func layerSums(t *timeline.Timeline) []layerSum {
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
	for i := range t.Events {
		if e := &t.Events[i]; e.Kind == timeline.Alloc {
			s := of(e.Layer)
			s.count++
			s.total += e.Bytes
			s.largest = max(s.largest, e.Bytes)
		}
	}
	if _, at := t.Peak(); at >= 0 {
		for _, i := range t.Live(at) {
			of(t.Events[i].Layer).atPeak += t.Events[i].Bytes
		}
	}
	return slices.DeleteFunc(sums, func(s layerSum) bool { return s.count == 0 })
}

func layerGrid(t *timeline.Timeline) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Layer", File: true},
		{Title: "At the peak", Right: true}, {Title: "Largest", Right: true}, {Title: "Allocated in all", Right: true},
		{Title: "Allocations", Right: true}}}
	for i, s := range layerSums(t) {
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), s.name, bytesCell(s.atPeak), bytesCell(s.largest),
			bytesCell(s.total), strconv.FormatInt(s.count, 10)})
	}
	return g
}

// differences sets the layers of two runs that bear the same name beside each other.
func differences(a, b *Run) *report.Grid {
	type pair struct {
		name string
		n    [2]int64
	}
	at := map[string]int{}
	var all []pair
	for i, t := range [2]*timeline.Timeline{a.Timeline, b.Timeline} {
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
	g := &report.Grid{Columns: []report.Column{{Title: "#", Right: true}, {Title: "Layer", File: true},
		{Title: show(a.Name), Right: true}, {Title: show(b.Name), Right: true}, {Title: "Difference", Right: true}}}
	for i, p := range all {
		g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), p.name, bytesCell(p.n[0]), bytesCell(p.n[1]),
			bytesCell(p.n[1] - p.n[0])})
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
		g.Rows = append(g.Rows, []string{c.String(), bytesCell(x[c]), bytesCell(y[c]), bytesCell(y[c] - x[c])})
	}
	g.Footer = []string{"all", report.Size(sum[0]), report.Size(sum[1]), report.Size(sum[1] - sum[0])}
	return g
}

func abs(n int64) int64 { return max(n, -n) }
