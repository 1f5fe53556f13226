package main

import (
	"math"
	"strconv"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// checkGrid is the one table of a check. With exact, sizes are bytes.
func checkGrid(all []*checked, exact bool) *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "verdict"}, {Title: "model", File: true}, {Title: "settings"}, {Title: "what"},
		{Title: "size", Right: true}, {Title: "limit", Right: true}, {Title: "before", Right: true,
			Spare: 3}, {Title: "change", Right: true, Spare: 2}, {Title: "note", Spare: 1},
	}}
	for _, c := range all {
		for _, x := range c.cases {
			for _, l := range x.lines {
				g.Rows = append(g.Rows, checkRow(l, exact))
			}
		}
		if c.err != nil {
			g.Rows = append(g.Rows, []string{"error", c.name, "", "", "", "", "", "", report.Show(oneLine(c.err.Error()), 200)})
		}
	}
	return g
}

// sizes writes a size, and beside it what it was before, where that is known, and how it changed.
func sizes(total string, now int64, was *int64, exact bool) (size, before, change string) {
	write := report.Size
	if exact {
		write = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	if was != nil {
		before = write(*was)
		change = report.Percent(diff.NewTotal(total, *was, now))
		if exact {
			change = strconv.FormatInt(now-*was, 10)
		}
	}
	return write(now), before, change
}

func checkRow(l budget.Line, exact bool) []string {
	size, before, change := sizes(l.Total, l.Value, l.Before, exact)
	verdict := "ok"
	switch {
	case l.Over:
		verdict = "over"
	case l.LimitText == "":
		verdict = "no limit"
	}
	return []string{verdict, l.Model, l.Settings, report.TotalName(l.Total), size, l.LimitText, before, change,
		l.Note}
}

// tightest returns the limit of a case that is the nearest to being passed, or passed by the most: the first of those
// whose figure is not known.
func (x *checkedCase) tightest() *budget.Line {
	var best *budget.Line
	most := -1.0
	for i := range x.lines {
		l := &x.lines[i]
		used := 0.0
		switch {
		case l.Over && (l.Limit == nil || l.Value <= *l.Limit):
			used = math.Inf(1) // whatever the figure is
		case l.Limit != nil && *l.Limit > 0:
			used = float64(l.Value) / float64(*l.Limit)
		case l.Limit != nil && l.Value > 0:
			used = math.Inf(1)
		}
		if l.Over {
			used += 1e6 // before all that holds
		}
		if used > most {
			best, most = l, used
		}
	}
	return best
}
