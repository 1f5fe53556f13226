package report

import (
	_ "embed"
	"io"
	"slices"

	"github.com/memestimate/memestimate/gate/diff"
)

//go:embed diff.css
var diffCSS string

// DiffHTML writes a diff as one page without scripts that needs no network.
func DiffHTML(w io.Writer, d *diff.Diff) error {
	var m Markup
	base, head := Show(d.Base.Name, nameWidth), Show(d.Head.Name, nameWidth)
	m.WriteString(`<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width">
`)
	m.Add("<title>%s and %s</title>\n<style>\n", base, head)
	m.WriteString(diffCSS)
	m.Add("</style>\n<h1>%s &rarr; %s</h1>\n", base, head)
	m.AddIf(d.Empty(), "<p>Nothing changes.</p>\n")
	if len(d.Cases) > 1 {
		m.grid(DiffCases(d))
	}
	for i := range d.Cases {
		if err := m.diffCase(w, &d.Cases[i]); err != nil {
			return err
		}
	}
	m.WriteString("</html>\n")
	_, err := m.WriteTo(w)
	return err
}

// rowsAtOnce is how many layers of a diff's page are rows before they are written: of 100,000 all would be 30 MB.
const rowsAtOnce = 1024

// diffCase writes what changes in one case, and all that was to be written before.
func (m *Markup) diffCase(w io.Writer, c *diff.Case) error {
	m.WriteString("<section>\n")
	m.AddIf(c.Label != "", "<h2>%s</h2>\n", c.Label)
	m.Add("<p>%s</p>\n", DiffSettings(c))
	totals, _ := DiffTotals(c)
	m.grid(totals)
	m.Add("<p>%s", DiffSummary(c))
	if peak := peakMove(c); peak != "" {
		m.Add("; %s", peak)
	}
	m.AddIf(c.Partial, "; not every operator is modelled: the figures are lower bounds")
	m.WriteString("</p>\n")
	begun := false
	for layers := range slices.Chunk(c.Layers, rowsAtOnce) {
		some := *c
		some.Layers = layers
		g := DiffLayers(&some, 2*nameWidth, diff.Added, diff.Removed, diff.Changed, diff.Renamed)
		if len(g.Rows) > 0 && !begun {
			m.gridHead(g)
			begun = true
		}
		m.gridRows(g)
		if _, err := m.WriteTo(w); err != nil {
			return err
		}
	}
	m.AddIf(begun, gridEnd)
	m.WriteString("</section>\n")
	_, err := m.WriteTo(w)
	return err
}

// grid writes a table.
func (m *Markup) grid(g *Grid) {
	m.gridHead(g)
	m.gridRows(g)
	m.WriteString(gridEnd)
}

const gridEnd = "</tbody>\n</table>\n"

// gridHead begins a table.
func (m *Markup) gridHead(g *Grid) {
	m.WriteString("<table>\n<thead><tr>")
	for _, c := range g.Columns {
		m.Cell("th", "", c.Right, c.Title)
	}
	m.WriteString("</tr></thead>\n<tbody>\n")
}

// gridRows writes the rows of a table.
func (m *Markup) gridRows(g *Grid) {
	for _, row := range g.Rows {
		m.WriteString("<tr>")
		for i, text := range row {
			m.Cell("td", "", g.Columns[i].Right, text)
		}
		m.WriteString("</tr>\n")
	}
}
