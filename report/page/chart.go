package page

import (
	"strconv"

	"github.com/memestimate/memestimate/report"
)

// A Chart sets sizes beside each other, as bars.
type Chart struct {
	Title    string
	Bars     []Bar
	Capacity Capacity // a line through all of them; 0 bytes is none
}

// A Bar is a size.
type Bar struct {
	Name  string
	Bytes int64
	Note  string // what to say beside it
	Base  bool   // the others are held against it
	Over  bool   // it is more than there is
	Error string // why there is no size; "" where there is one
}

// chart draws bars in boxes that are 100 wide.
func (m *markup) chart(c *Chart) {
	longest := int64(1)
	for _, b := range c.Bars {
		longest = max(longest, b.Bytes)
	}
	limit := "" // where the capacity is, unless that is far outside
	if at := c.Capacity.Bytes; at > 0 && at <= 2*longest {
		longest = max(longest, at)
		limit = hundredths(at, longest)
	}
	m.Add(`<section aria-labelledby="h-chart">
<h2 id="h-chart">%s</h2>
`, c.Title)
	m.AddIf(limit != "", `<p class="quiet">The line is %s: %s.</p>`, c.Capacity.Name, report.Size(c.Capacity.Bytes))
	m.WriteString("\n" + `<table class="chart"><thead><tr><th scope="col">Setting</th><td aria-hidden="true"></td>` +
		`<th scope="col" class="n">On the GPU</th><th scope="col" class="n">Change</th></tr></thead>` + "\n<tbody>")
	for _, b := range c.Bars {
		m.bar(&b, hundredths(b.Bytes, longest), limit)
	}
	m.WriteString("</tbody></table>\n</section>")
}

func (m *markup) bar(b *Bar, width, limit string) {
	m.WriteString("<tr")
	m.AddIf(b.Base, ` class="base"`)
	m.Add(`><th scope="row">%s</th>`, b.Name)
	if b.Error != "" {
		m.Add(`<td class="why" colspan="3">%s</td></tr>`+"\n", b.Error)
		return
	}
	m.WriteString(`<td aria-hidden="true"><svg viewBox="0 0 100 10" preserveAspectRatio="none">`)
	class := "bar"
	if b.Over {
		class = "over"
	}
	m.Add(`<rect class="%s" width="%s" height="10"/>`, class, width)
	m.AddIf(limit != "", `<line x1="%s" x2="%s" y1="0" y2="10"/>`, limit, limit)
	m.Add(`</svg></td><td class="n">%s</td><td class="n">%s</td></tr>`+"\n", report.Size(b.Bytes), b.Note)
}

// hundredths writes what n is of all, of 100.
func hundredths(n, all int64) string {
	return strconv.FormatFloat(100*float64(n)/float64(all), 'f', 2, 64)
}
