package page

import (
	_ "embed"
	"strconv"

	"github.com/memestimate/memestimate/report"
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

// A page is HTML whose names and numbers are escaped where they are added; styles, scripts and data are written as they
// are, since the page's policy knows them by their hashes.
type markup struct{ report.Markup }

// markup writes the page up to the data: see writeData.
func (v *view) markup() *markup {
	m := &markup{}
	m.head(v)
	m.WriteString("<main>\n")
	m.verdicts(v)
	if v.Drawn {
		m.timeline(v)
		m.moment(v)
	}
	m.WriteByte('\n')
	if v.Chart != nil {
		m.chart(v.Chart)
	}
	m.WriteByte('\n')
	if v.Curve != nil {
		m.curve(v.Curve)
	}
	m.WriteString("\n" + `<section id="tables" tabindex="-1" aria-label="Tables">` + "\n")
	for i := range v.Tables {
		m.table(strconv.Itoa(i), &v.Tables[i])
	}
	m.WriteString("</section>\n")
	if v.Traced {
		m.WriteString(tracedHTML)
	}
	m.WriteByte('\n')
	if v.HasSegs {
		m.WriteString(segmentsHTML)
	}
	m.WriteByte('\n')
	if len(v.Notes) > 0 {
		m.WriteString(`<section aria-labelledby="h-notes"><h2 id="h-notes">Notes</h2><ul class="notes">`)
		for _, note := range v.Notes {
			m.Add("<li>%s</li>", note)
		}
		m.WriteString("</ul></section>")
	}
	m.WriteString("\n</main>\n")
	return m
}

// scripts writes what comes after the data.
func (v *view) scripts() *markup {
	m := &markup{}
	if v.Drawn {
		m.WriteString("<script>" + v.Uplot + "</script>")
	}
	m.WriteString("\n<script>" + v.Own + "</script>\n</body>\n</html>\n")
	return m
}

func (m *markup) head(v *view) {
	m.Add(`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="%s">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
`, v.Policy, v.Title)
	m.WriteString("<style>" + v.CSS + "</style>\n")
	m.Add(`</head>
<body>
<a class="skip" href="#tables">Skip the picture, go to the tables</a>
<header>
<div><h1>%s</h1>`, v.Title)
	m.AddIf(v.Subtitle != "", "<p>%s</p>", v.Subtitle)
	m.WriteString(`</div>
<button type="button" id="theme" aria-label="dark or light">Dark</button>
</header>
`)
}

func (m *markup) verdicts(v *view) {
	for _, verdict := range v.Verdicts {
		class := "verdict"
		if verdict.Good {
			class += " good"
		}
		m.Add(`<p class="%s">%s</p>`, class, verdict.Text)
	}
	m.WriteByte('\n')
	if len(v.Facts) > 0 {
		m.WriteString(`<dl class="facts">`)
		for _, f := range v.Facts {
			m.Add("<div><dt>%s</dt><dd>%s</dd>", f.Name, f.Value)
			m.AddIf(f.About != "", `<dd class="about">%s</dd>`, f.About)
			m.WriteString("</div>")
		}
		m.WriteString("</dl>")
	}
	m.WriteByte('\n')
}

// timeline is the picture with its controls, which the script fills.
func (m *markup) timeline(v *view) {
	m.WriteString(`<section aria-labelledby="h-timeline">
<h2 id="h-timeline">Memory over the run</h2>
<div class="tools">
`)
	if v.Two {
		m.WriteString(`<label>Bands of <select id="run">`)
		for i, r := range v.Runs {
			m.Add(`<option value="%s">%s</option>`, strconv.Itoa(i), r.Name)
		}
		m.WriteString("</select></label>")
	}
	m.WriteString("\n" + toolsHTML)
	m.AddIf(v.Traced, `<button type="button" id="bands">Show segments</button>`)
	m.WriteString(pictureHTML)
}

// moment is what is live at an event: at the peak, until the script knows of another.
func (m *markup) moment(v *view) {
	m.WriteString(`<section aria-labelledby="h-moment">
<h2 id="h-moment">At the peak</h2>
`)
	for _, r := range v.Runs {
		if r.Sentence == "" {
			continue
		}
		m.WriteString(`<p class="quiet">`)
		m.AddIf(v.Two, "%s: ", r.Name)
		m.Add("%s</p>", r.Sentence)
	}
	m.WriteString("\n" + momentHTML)
	for _, c := range v.Runs[0].Categories {
		m.Add(`<tr><td>%s</td><td class="n">%s</td><td class="n">%s</td></tr>`, c[0], c[1], c[2])
	}
	m.WriteString(largestHTML)
}

func (m *markup) table(n string, t *table) {
	m.Add(`<section>
<h2 id="h-table-%s">%s</h2>
<div class="wide scroll" role="region" aria-labelledby="h-table-%s" tabindex="0">
<table class="sortable big`, n, t.Title, n)
	m.AddIf(t.Layers, " layers")
	m.WriteString("\">\n<thead><tr>")
	for _, c := range t.Columns {
		m.Cell("th", ` scope="col"`, c.Right, c.Title)
	}
	m.WriteString("</tr></thead>\n<tbody>")
	for _, r := range t.Rows {
		m.WriteString("<tr")
		m.AddIf(r.Layer != "", ` data-layer="%s"`, r.Layer)
		m.WriteByte('>')
		for _, c := range r.Cells {
			m.WriteString("<td")
			m.AddIf(c.Right, ` class="n"`)
			m.AddIf(c.Number != "", ` data-n="%s"`, c.Number)
			m.Add(">%s</td>", c.Text)
		}
		m.WriteString("</tr>\n")
	}
	m.WriteString("</tbody>")
	if len(t.Footer) > 0 {
		m.WriteString("\n<tfoot><tr>")
		for _, c := range t.Footer {
			m.Cell("td", "", c.Right, c.Text)
		}
		m.WriteString("</tr></tfoot>")
	}
	m.WriteString("</table>\n")
	m.AddIf(t.More > 0, `<p class="quiet">... %s more rows are not shown.</p>`, strconv.Itoa(t.More))
	m.WriteString("\n</div>\n</section>\n")
}
