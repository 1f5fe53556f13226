package report

import (
	_ "embed"
	"io"

	"github.com/memestimate/memestimate/diff"
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
		m.diffCase(&d.Cases[i])
	}
	m.WriteString("</html>\n")
	_, err := m.WriteTo(w)
	return err
}

// diffCase writes what changes in one case.
func (m *Markup) diffCase(c *diff.Case) {
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
	layers := DiffLayers(c, 2*nameWidth, diff.Added, diff.Removed, diff.Changed, diff.Renamed)
	if len(layers.Rows) > 0 {
		m.grid(layers)
	}
	m.WriteString("</section>\n")
}

// grid writes a table.
func (m *Markup) grid(g *Grid) {
	m.WriteString("<table>\n<thead><tr>")
	for _, c := range g.Columns {
		m.Cell("th", "", c.Right, c.Title)
	}
	m.WriteString("</tr></thead>\n<tbody>\n")
	for _, row := range g.Rows {
		m.WriteString("<tr>")
		for i, text := range row {
			m.Cell("td", "", g.Columns[i].Right, text)
		}
		m.WriteString("</tr>\n")
	}
	m.WriteString("</tbody>\n</table>\n")
}
