package page

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/report"
)

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

type curveView struct {
	Device, Bound string // points of the two lines
	Dots          []dotView
	Limits        []lineView
	XTicks        []tickView
	YTicks        []tickView
	Left, Right   string // the box of both axes
	Top, Bottom   string
}

type dotView struct {
	X, Y  string
	Title string
	Fits  bool
}

type lineView struct {
	at             float64
	Y, TextY, Name string
	Asked          bool // what the run was to fit
}

type tickView struct{ At, Text string }

// drawn lays a curve out. Both axes begin at 0; of the GPUs, those are shown that are within the picture.
func (c *Curve) drawn() *curveView {
	if c == nil || len(c.Points) == 0 {
		return nil
	}
	tallest, wide := c.Memory, int64(1)
	for _, p := range c.Points {
		tallest, wide = max(tallest, p.Safe), max(wide, p.Batch)
	}
	top := float64(tallest) * 1.05
	const right, bottom = curveWidth - curveRight, curveHeight - curveBottom
	v := &curveView{Left: whole(curveLeft), Right: whole(right), Top: whole(curveTop), Bottom: whole(bottom)}
	x := func(batch int64) float64 { return curveLeft + (right-curveLeft)*float64(batch)/float64(wide) }
	y := func(bytes int64) float64 { return bottom - (bottom-curveTop)*float64(bytes)/top }
	var device, safe []string
	for _, p := range c.Points {
		device = append(device, place(x(p.Batch))+","+place(y(p.Device)))
		safe = append(safe, place(x(p.Batch))+","+place(y(p.Safe)))
		v.Dots = append(v.Dots, dotView{place(x(p.Batch)), place(y(p.Device)),
			fmt.Sprintf("batch %s: %s, %s to be safe", report.Count(p.Batch), report.Size(p.Device), report.Size(p.Safe)),
			p.Device <= c.Memory})
	}
	v.Device, v.Bound = strings.Join(device, " "), strings.Join(safe, " ")
	limits := slices.Clone(c.Limits)
	slices.SortStableFunc(limits, func(a, b Capacity) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
	for _, l := range limits {
		if float64(l.Bytes) > top {
			continue
		}
		at, k := y(l.Bytes), len(v.Limits)-1
		if k >= 0 && v.Limits[k].at+16 > at { // no room for a name of its own
			v.Limits[k].Name += ", " + clean(l.Name)
			v.Limits[k].Asked = v.Limits[k].Asked || l.Bytes == c.Memory
			continue
		}
		v.Limits = append(v.Limits, lineView{at, place(at), place(at - 5), clean(l.Name), l.Bytes == c.Memory})
	}
	step := round(float64(wide) / 6)
	for n := int64(0); n <= wide; n += step {
		v.XTicks = append(v.XTicks, tickView{place(x(n)), report.Count(n)})
	}
	unit := int64(1) // a power of two of bytes, so that the numbers are whole or halves
	for float64(unit)*6 < top {
		unit *= 2
	}
	for n := int64(0); float64(n) <= top; n += unit {
		label := strings.TrimSuffix(strings.Replace(report.Size(n), ".00", "", 1), " B")
		v.YTicks = append(v.YTicks, tickView{place(y(n)), label})
	}
	return v
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
