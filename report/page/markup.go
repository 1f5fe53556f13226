package page

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html"
	"slices"
	"strconv"

	"github.com/memestimate/memestimate/report"
	"github.com/memestimate/memestimate/simulate/timeline"
)

// What of the page is always alike.
var (
	//go:embed parts/tools.html
	toolsHTML string // above the picture
	//go:embed parts/picture.html
	pictureHTML string
	//go:embed parts/moment.html
	momentHTML string // up to the rows of what is live by category
	//go:embed parts/largest.html
	largestHTML string // from there on
	//go:embed parts/traced.html
	tracedHTML string
	//go:embed parts/segments.html
	segmentsHTML string
)

// A markup is HTML in the making: what the program writes itself stays as it is, everything else is cleaned and
// escaped. It knows text and quoted attributes alone, where package html/template knows every place; but a template
// calls methods by their names, and with it the linker keeps every exported method of the program, an eighth of what a
// browser loads. Styles, scripts and data are written as they are, since the page's policy knows them by their hashes.
type markup struct{ bytes.Buffer }

// Add writes markup with the values, escaped, in the places of its %s.
func (m *markup) Add(markup string, values ...string) {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(clean(v))
	}
	fmt.Fprintf(m, markup, escaped...)
}

// AddIf writes markup where a condition holds.
func (m *markup) AddIf(holds bool, markup string, values ...string) {
	if holds {
		m.Add(markup, values...)
	}
}

// markup writes the page up to the data: see writeData.
func (p *Page) markup() *markup {
	m := &markup{}
	m.head(p)
	m.WriteString("<main>\n")
	m.verdicts(p)
	segments, traced := false, false
	for i := range p.Runs {
		segments = segments || len(p.Runs[i].Segments) > 0
		traced = traced || p.Runs[i].Trace != nil
	}
	if len(p.Runs) > 0 {
		m.timeline(p, traced)
		m.moment(p)
	}
	m.WriteByte('\n')
	if p.Chart != nil {
		m.chart(p.Chart)
	}
	m.WriteByte('\n')
	if p.Curve != nil && len(p.Curve.Points) > 0 {
		m.curve(p.Curve)
	}
	m.WriteString("\n" + `<section id="tables" tabindex="-1" aria-label="Tables">` + "\n")
	for i, t := range slices.Concat(timelineTables(p.Runs), p.Tables) {
		m.table(strconv.Itoa(i), &t)
	}
	m.WriteString("</section>\n")
	if traced {
		m.WriteString(tracedHTML)
	}
	m.WriteByte('\n')
	if segments {
		m.WriteString(segmentsHTML)
	}
	m.WriteByte('\n')
	if len(p.Notes) > 0 {
		m.WriteString(`<section aria-labelledby="h-notes"><h2 id="h-notes">Notes</h2><ul class="notes">`)
		for _, note := range p.Notes {
			m.Add("<li>%s</li>", note)
		}
		m.WriteString("</ul></section>")
	}
	m.WriteString("\n</main>\n")
	return m
}

// scripts writes what comes after the data.
func (p *Page) scripts() *markup {
	m := &markup{}
	if len(p.Runs) > 0 {
		m.WriteString("<script>" + uplotJS + "</script>")
	}
	m.WriteString("\n<script>" + pageJS() + "</script>\n</body>\n</html>\n")
	return m
}

func (m *markup) head(p *Page) {
	styles, scripts := Sources()
	m.Add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src %s; script-src %s; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
`, styles, scripts, p.Title)
	m.WriteString("<style>" + uplotCSS + pageCSS + "</style>\n")
	m.Add(`</head>
<body>
<a class="skip" href="#tables">Skip the picture, go to the tables</a>
<header>
<div><h1>%s</h1>`, p.Title)
	m.AddIf(p.Subtitle != "", "<p>%s</p>", p.Subtitle)
	m.WriteString(`</div>
<button type="button" id="theme" aria-label="dark or light">Dark</button>
</header>
`)
}

func (m *markup) verdicts(p *Page) {
	for _, verdict := range p.Verdicts {
		class := "verdict"
		if verdict.Good {
			class += " good"
		}
		m.Add(`<p class="%s">%s</p>`, class, verdict.Text)
	}
	m.WriteByte('\n')
	if len(p.Facts) > 0 {
		m.WriteString(`<dl class="facts">`)
		for _, f := range p.Facts {
			m.Add("<div><dt>%s</dt><dd>%s</dd>", f.Name, f.Value)
			m.AddIf(f.About != "", `<dd class="about">%s</dd>`, f.About)
			m.WriteString("</div>")
		}
		m.WriteString("</dl>")
	}
	m.WriteByte('\n')
}

// timeline is the picture with its controls, which the script fills.
func (m *markup) timeline(p *Page, traced bool) {
	m.WriteString(`<section aria-labelledby="h-timeline">
<h2 id="h-timeline">Memory over the run</h2>
<div class="tools">
`)
	if len(p.Runs) > 1 {
		m.WriteString(`<label>Bands of <select id="run">`)
		for i := range p.Runs {
			m.Add(`<option value="%s">%s</option>`, strconv.Itoa(i), show(p.Runs[i].Name))
		}
		m.WriteString("</select></label>")
	}
	m.WriteString("\n" + toolsHTML)
	m.AddIf(traced, `<button type="button" id="bands">Show segments</button>`)
	m.WriteString(pictureHTML)
}

// moment is what is live at an event: at the peak, until the script knows of another.
func (m *markup) moment(p *Page) {
	m.WriteString(`<section aria-labelledby="h-moment">
<h2 id="h-moment">At the peak</h2>
`)
	alone := len(p.Runs) == 1
	for i := range p.Runs {
		r := &p.Runs[i]
		if text := peakSentence(r, alone); text != "" {
			m.WriteString(`<p class="quiet">`)
			m.AddIf(!alone, "%s: ", show(r.Name))
			m.Add("%s</p>", text)
		}
	}
	m.WriteString("\n" + momentHTML)
	t := p.Runs[0].Timeline
	if live, at := t.Peak(); at >= 0 {
		by := t.ByCategory(at)
		var order []timeline.Category
		for c := range timeline.NumCategories {
			order = append(order, c)
		}
		slices.SortStableFunc(order, func(a, b timeline.Category) int { return cmp.Compare(by[b], by[a]) })
		for _, c := range order {
			share := strconv.FormatFloat(float64(by[c])/float64(live)*100, 'f', 1, 64)
			m.AddIf(by[c] > 0, `<tr><td>%s</td><td class="n">%s</td><td class="n">%s %%</td></tr>`, categoryWord(c),
				report.Size(by[c]), share)
		}
	}
	m.WriteString(largestHTML)
}

func (m *markup) table(n string, t *Table) {
	m.Add(`<section>
<h2 id="h-table-%s">%s</h2>
<div class="wide scroll" role="region" aria-labelledby="h-table-%s" tabindex="0">
<table class="sortable big`, n, t.Title, n)
	m.AddIf(t.layers != nil, " layers")
	m.WriteString("\">\n<thead><tr>")
	for _, c := range t.Grid.Columns {
		m.WriteString(`<th scope="col"`)
		m.AddIf(c.Right, ` class="n"`)
		m.Add(">%s</th>", c.Title)
	}
	m.WriteString("</tr></thead>\n<tbody>")
	shown := min(len(t.Grid.Rows), maxRows)
	for i, r := range t.Grid.Rows[:shown] {
		m.WriteString("<tr")
		if t.layers != nil {
			m.Add(` data-layer="%s"`, show(t.layers[i]))
		}
		m.WriteByte('>')
		for k, text := range r {
			c, sort := t.Grid.Columns[k], ""
			switch {
			case c.File && text != "":
				text = show(text)
			case c.Right:
				sort, text = number(text)
			}
			m.WriteString("<td")
			m.AddIf(c.Right, ` class="n"`)
			m.AddIf(sort != "", ` data-n="%s"`, sort)
			m.Add(">%s</td>", text)
		}
		m.WriteString("</tr>\n")
	}
	m.WriteString("</tbody>")
	if len(t.Grid.Footer) > 0 {
		m.WriteString("\n<tfoot><tr>")
		for k, text := range t.Grid.Footer {
			m.WriteString("<td")
			m.AddIf(t.Grid.Columns[k].Right, ` class="n"`)
			m.Add(">%s</td>", text)
		}
		m.WriteString("</tr></tfoot>")
	}
	m.WriteString("</table>\n")
	more := len(t.Grid.Rows) - shown
	m.AddIf(more > 0, `<p class="quiet">... %s more rows are not shown.</p>`, strconv.Itoa(more))
	m.WriteString("\n</div>\n</section>\n")
}
