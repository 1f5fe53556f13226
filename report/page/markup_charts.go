package page

import "strings"

func (m *markup) chart(c *chartView) {
	m.Add(`<section aria-labelledby="h-chart">
<h2 id="h-chart">%s</h2>
`, c.Title)
	m.AddIf(c.Capacity != "", `<p class="quiet">The line is %s.</p>`, c.Capacity)
	m.WriteString("\n" + `<table class="chart"><thead><tr><th scope="col">Setting</th><td aria-hidden="true"></td>` +
		`<th scope="col" class="n">On the GPU</th><th scope="col" class="n">Change</th></tr></thead>` + "\n<tbody>")
	for _, b := range c.Bars {
		m.bar(&b)
	}
	m.WriteString("</tbody></table>\n</section>")
}

func (m *markup) bar(b *barView) {
	m.WriteString("<tr")
	m.AddIf(b.Base, ` class="base"`)
	m.Add(`><th scope="row">%s</th>`, b.Name)
	if b.Why != "" {
		m.Add(`<td class="why" colspan="3">%s</td></tr>`+"\n", b.Why)
		return
	}
	m.WriteString(`<td aria-hidden="true"><svg viewBox="0 0 100 10" preserveAspectRatio="none">`)
	class := "bar"
	if b.Over {
		class = "over"
	}
	m.Add(`<rect class="%s" width="%s" height="10"/>`, class, b.Width)
	m.AddIf(b.Limit != "", `<line x1="%s" x2="%s" y1="0" y2="10"/>`, b.Limit, b.Limit)
	m.Add(`</svg></td><td class="n">%s</td><td class="n">%s</td></tr>`+"\n", b.Size, b.Note)
}

func (m *markup) curve(c *curveView) {
	m.WriteString(`<section>
<h2 id="h-curve">Memory by batch size</h2>
<div class="wide" role="region" aria-labelledby="h-curve" tabindex="0"><svg class="curve" viewBox="0 0 900 420" ` +
		`role="img" aria-labelledby="h-curve">` + "\n")
	for _, t := range c.YTicks {
		m.Add(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, c.Left, c.Right, t.At, t.At)
		m.Add(`<text class="axis" x="92" y="%s" dy="4" text-anchor="end">%s</text>`+"\n", t.At, t.Text)
	}
	for _, t := range c.XTicks {
		m.Add(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, t.At, t.At, c.Top, c.Bottom)
		m.Add(`<text class="axis" x="%s" y="374" text-anchor="middle">%s</text>`+"\n", t.At, t.Text)
	}
	m.WriteString(`<text class="axis" x="490" y="406" text-anchor="middle">batch size</text>` + "\n")
	for _, l := range c.Limits {
		asked := ""
		if l.Asked {
			asked = " asked"
		}
		m.Add(`<line class="%s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, "limit"+asked, c.Left, c.Right, l.Y, l.Y)
		m.Add(`<text class="%s" x="106" y="%s">%s</text>`+"\n", "name"+asked, l.TextY, l.Name)
	}
	m.Add(`<polyline class="bound" points="%s"/><polyline class="device" points="%s"/>`+"\n", c.Bound, c.Device)
	for _, d := range c.Dots {
		m.Add(`<circle cx="%s" cy="%s" r="4"`, d.X, d.Y)
		m.AddIf(!d.Fits, ` class="over"`)
		m.Add("><title>%s</title></circle>\n", d.Title)
	}
	m.WriteString(strings.TrimPrefix(curveLegend, "\n"))
}

const curveLegend = `
</svg></div>
<p class="quiet">The line is what nvidia-smi would show, the dashed one what is safe; each dot was simulated. ` +
	`Horizontal lines are what GPUs have.</p>
</section>`
