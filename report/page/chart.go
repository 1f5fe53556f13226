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

type chartView struct {
	Title, Capacity string
	Bars            []barView
}

// A barView is drawn in a box 100 wide.
type barView struct {
	Name, Size, Note string
	Why              string // there is no bar: a sentence, as long as the row
	Base, Over       bool
	Width            string
	Limit            string // where the capacity is; empty where it is outside
}

// bars lays a chart out.
func (c *Chart) bars() *chartView {
	if c == nil {
		return nil
	}
	v := &chartView{Title: clean(c.Title)}
	longest := int64(1)
	for _, b := range c.Bars {
		longest = max(longest, b.Bytes)
	}
	limit := ""
	if at := c.Capacity.Bytes; at > 0 && at <= 2*longest {
		longest = max(longest, at)
		limit = hundredths(at, longest)
		v.Capacity = clean(c.Capacity.Name) + ": " + report.Size(at)
	}
	for _, b := range c.Bars {
		x := barView{Name: clean(b.Name), Size: report.Size(b.Bytes), Note: clean(b.Note), Base: b.Base, Over: b.Over,
			Width: hundredths(b.Bytes, longest), Limit: limit}
		x.Why = clean(b.Error)
		v.Bars = append(v.Bars, x)
	}
	return v
}

// hundredths writes what n is of all, of 100.
func hundredths(n, all int64) string {
	return strconv.FormatFloat(100*float64(n)/float64(all), 'f', 2, 64)
}
