package page

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// A table is one of the page's, ready to be written.
type table struct {
	Title   string
	Columns []report.Column
	Rows    []row
	Footer  []cell
	More    int  // rows left out
	Layers  bool // a row is a layer of the picture
}

// A row is a line of a table.
type row struct {
	Layer string // of the timeline; empty where the row is none
	Cells []cell
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
	Sentence   string
	Categories [][3]string // name, size, share at the peak, the largest first
}

// runOf describes a run, alone on its page or not.
func runOf(r *Run, alone bool) runView {
	t := r.Timeline
	bytes, at := t.Peak()
	v := runView{Name: show(r.Name), Sentence: "Nothing is ever allocated."}
	if at < 0 {
		return v
	}
	if v.Sentence = ""; alone && !r.Inferred {
		return v.categories(t, bytes, at) // the page's facts say it
	}
	e := t.At(at)
	v.Sentence = fmt.Sprintf("%s live at the peak, in step %d, %s", report.Size(bytes), e.Step, e.Phase)
	if e.Layer != timeline.NoLayer {
		v.Sentence += ", at " + show(t.Layers[e.Layer])
	}
	v.Sentence += "."
	if r.Allocated > 0 {
		v.Sentence += " The allocator's peak: " + report.Size(r.Allocated) + " allocated"
		if r.Reserved > 0 {
			v.Sentence += ", " + report.Size(r.Reserved) + " reserved"
		}
		v.Sentence += "."
	}
	if r.Inferred {
		v.Sentence += " Categories and phases are inferred from the recorded stacks."
	}
	return v.categories(t, bytes, at)
}

// categories adds what was live at an event, in so many bytes.
func (v runView) categories(t *timeline.Source, bytes int64, at int) runView {
	by := t.ByCategory(at)
	var order []timeline.Category
	for c := range timeline.NumCategories {
		if by[c] > 0 {
			order = append(order, c)
		}
	}
	slices.SortStableFunc(order, func(a, b timeline.Category) int { return cmp.Compare(by[b], by[a]) })
	for _, c := range order {
		v.Categories = append(v.Categories, [3]string{categoryWord(c), report.Size(by[c]),
			strconv.FormatFloat(float64(by[c])/float64(bytes)*100, 'f', 1, 64) + " %"})
	}
	return v
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
	sizes := make([]int64, t.Blocks)
	for _, e := range t.Each {
		if k := len(out); k == 0 || out[k-1].step != e.Step || out[k-1].name != e.Phase.String() {
			out = append(out, phase{e.Step, e.Phase.String(), live, live})
		}
		switch e.Kind {
		case timeline.Alloc:
			sizes[e.Block] = e.Bytes
			live += e.Bytes
		case timeline.Free:
			live -= sizes[e.Block]
		}
		p := &out[len(out)-1]
		p.end, p.peak = live, max(p.peak, live)
	}
	return out
}

// tables are those of the timelines, then the others.
func tables(p *Page) ([]table, error) {
	var out []table
	switch len(p.Runs) {
	case 0:
	case 2:
		a, b := &p.Runs[0], &p.Runs[1]
		layers, names := differences(a, b)
		out = append(out, tableOf("Differences by category", categoryDifferences(a, b), nil),
			tableOf("Differences by layer, the largest first", layers, names),
			tableOf("Differences by phase", phaseDifferences(a, b), nil))
	default:
		layers, names := layerGrid(&p.Runs[0])
		out = append(out, tableOf("Layers", layers, names), tableOf("Phases", phaseGrid(p.Runs[0].Timeline), nil))
	}
	for _, t := range p.Tables {
		if t.Grid == nil {
			return nil, fmt.Errorf("page: table %q has no grid", t.Title)
		}
		out = append(out, tableOf(t.Title, t.Grid, nil))
	}
	return out, nil
}

// tableOf escapes a grid and finds its numbers. layers are the timeline's names of the layers that its rows are of; nil
// where they are of none.
func tableOf(title string, g *report.Grid, layers []string) table {
	t := table{Title: clean(title), Layers: layers != nil}
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
		line := row{Cells: cells}
		if layers != nil {
			line.Layer = show(layers[i])
		}
		t.Rows = append(t.Rows, line)
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
