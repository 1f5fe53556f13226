package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

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

// A Curve is what a run takes on the device by its batch size.
type Curve struct {
	Points []Point // by increasing batch
	Limits []Capacity
	Memory int64 // what it was to fit
}

// A Point is the run with one batch; in bytes.
type Point struct{ Batch, Device, Safe int64 }

// The picture of a curve, in its own units: a box with room for the axes' numbers at the left and at the bottom, also
// in the larger letters that a narrow page has.
const (
	curveWidth, curveHeight = 900.0, 420.0
	curveLeft, curveRight   = 100.0, 20.0
	curveTop, curveBottom   = 20.0, 70.0
)

// curve draws a curve. Both axes begin at 0; of the GPUs, those are shown that are within the picture.
func (m *markup) curve(c *Curve) {
	tallest, wide := c.Memory, int64(1)
	for _, p := range c.Points {
		tallest, wide = max(tallest, p.Safe), max(wide, p.Batch)
	}
	height := float64(tallest) * 1.05
	const right, bottom = curveWidth - curveRight, curveHeight - curveBottom
	x := func(batch int64) string { return place(curveLeft + (right-curveLeft)*float64(batch)/float64(wide)) }
	y := func(bytes int64) float64 { return bottom - (bottom-curveTop)*float64(bytes)/height }
	m.WriteString(`<section>
<h2 id="h-curve">Memory by batch size</h2>
<div class="wide" role="region" aria-labelledby="h-curve" tabindex="0"><svg class="curve" viewBox="0 0 900 420" ` +
		`role="img" aria-labelledby="h-curve">` + "\n")
	unit := int64(1) // a power of two of bytes, so that the numbers are whole or halves
	for float64(unit)*6 < height {
		unit *= 2
	}
	for n := int64(0); float64(n) <= height; n += unit {
		at, label := place(y(n)), strings.TrimSuffix(strings.Replace(report.Size(n), ".00", "", 1), " B")
		m.Add(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, whole(curveLeft), whole(right), at, at)
		m.Add(`<text class="axis" x="92" y="%s" dy="4" text-anchor="end">%s</text>`+"\n", at, label)
	}
	step := round(float64(wide) / 6)
	for n := int64(0); n <= wide; n += step {
		m.Add(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, x(n), x(n), whole(curveTop), whole(bottom))
		m.Add(`<text class="axis" x="%s" y="374" text-anchor="middle">%s</text>`+"\n", x(n), report.Count(n))
	}
	m.WriteString(`<text class="axis" x="490" y="406" text-anchor="middle">batch size</text>` + "\n")
	for _, l := range c.lines(height, y) {
		asked, at := "", place(l.y)
		if l.asked {
			asked = " asked"
		}
		m.Add(`<line class="%s" x1="%s" x2="%s" y1="%s" y2="%s"/>`, "limit"+asked, whole(curveLeft), whole(right), at, at)
		m.Add(`<text class="%s" x="106" y="%s">%s</text>`+"\n", "name"+asked, place(l.y-5), l.name)
	}
	var device, safe []string
	for _, p := range c.Points {
		device = append(device, x(p.Batch)+","+place(y(p.Device)))
		safe = append(safe, x(p.Batch)+","+place(y(p.Safe)))
	}
	m.Add(`<polyline class="bound" points="%s"/><polyline class="device" points="%s"/>`+"\n", strings.Join(safe, " "),
		strings.Join(device, " "))
	for _, p := range c.Points {
		m.Add(`<circle cx="%s" cy="%s" r="4"`, x(p.Batch), place(y(p.Device)))
		m.AddIf(p.Device > c.Memory, ` class="over"`)
		m.Add("><title>batch %s: %s, %s to be safe</title></circle>\n", report.Count(p.Batch), report.Size(p.Device),
			report.Size(p.Safe))
	}
	m.WriteString(`</svg></div>
<p class="quiet">The line is what nvidia-smi would show, the dashed one what is safe; each dot was simulated. ` +
		`Horizontal lines are what GPUs have.</p>
</section>`)
}

// A limitLine is what one GPU has, or several that have nearly the same.
type limitLine struct {
	y     float64
	name  string
	asked bool // what the run was to fit
}

// lines places the limits within the picture.
func (c *Curve) lines(height float64, y func(int64) float64) (out []limitLine) {
	limits := slices.SortedStableFunc(slices.Values(c.Limits),
		func(a, b Capacity) int { return cmp.Compare(b.Bytes, a.Bytes) })
	for _, l := range limits {
		if float64(l.Bytes) > height {
			continue
		}
		at, asked := y(l.Bytes), l.Bytes == c.Memory
		if k := len(out) - 1; k >= 0 && out[k].y+16 > at { // no room for a name of its own
			out[k].name += ", " + l.Name
			out[k].asked = out[k].asked || asked
			continue
		}
		out = append(out, limitLine{at, l.Name, asked})
	}
	return out
}

// round is a number of one digit that is not less.
func round(n float64) int64 {
	power := math.Pow(10, math.Floor(math.Log10(max(n, 1))))
	for _, m := range []float64{1, 2, 5, 10} {
		if m*power >= n {
			return int64(m * power)
		}
	}
	return int64(10 * power)
}

func whole(v float64) string { return strconv.Itoa(int(v)) }

func place(v float64) string { return strconv.FormatFloat(v, 'f', 1, 64) }
