package main

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// A row is one of a comment's table.
type row struct {
	cells  []string
	rank   int     // 0 is over a limit, 1 new, 2 the others
	change float64 // share of what was there before
}

// rows makes a row for each model and setting, those over their limits first and then by how much they change, and
// what there is to say beside them. Of those that were there and are within their limits only the first open ones are
// in the table; rest has the others. Of names below a folder only the end is shown.
func (o *outcome) rows(models []*checked, below string, open int) (table, rest *report.Grid, notes []string) {
	var all []row
	for _, c := range models {
		if c.moved() {
			notes = append(notes, name(c.name, listName)+" was "+name(c.past.name, listName))
		}
		for i := range c.cases {
			x := &c.cases[i]
			l := x.tightest()
			if l == nil {
				continue
			}
			all = append(all, commentRow(strings.TrimPrefix(c.name, below), c, x, l))
			about := name(c.name, listName)
			if x.label != "" {
				about += " (" + x.label + ")"
			}
			for k := range x.lines {
				if other := &x.lines[k]; other != l && other.Over || other.Note != "" {
					notes = append(notes, about+": "+noteText(other))
				}
			}
			if s := peakMoves(x); s != "" {
				notes = append(notes, about+": "+s)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b row) int { return cmp.Or(a.rank-b.rank, cmp.Compare(b.change, a.change)) })
	columns := []report.Column{
		{Title: "state"}, {Title: "model"}, {Title: "before", Right: true}, {Title: "after", Right: true}, {Title: "change",
			Right: true}, {Title: "tightest limit"},
	}
	table, rest = &report.Grid{Columns: columns}, &report.Grid{Columns: columns}
	for _, r := range all {
		to := table
		if r.rank == 2 {
			if open--; open < 0 {
				to = rest
			}
		}
		to.Rows = append(to.Rows, r.cells)
	}
	return table, rest, notes
}

// commonFolder returns the folder that all models are in, with a slash at its end, where the names of some are too
// long to be shown whole; else "".
func commonFolder(models []*checked) string {
	folder, long := path.Dir(models[0].name)+"/", false
	for _, c := range models {
		long = long || len(c.name) > rowName
		for folder != "./" && !strings.HasPrefix(c.name, folder) {
			folder = path.Dir(strings.TrimSuffix(folder, "/")) + "/"
		}
	}
	if !long || len(models) < 2 || folder == "./" || folder == "//" {
		return ""
	}
	return folder
}

// unbroken keeps a figure and its unit on one line.
func unbroken(s string) string { return strings.ReplaceAll(s, " ", "&nbsp;") }

func commentRow(shown string, c *checked, x *checkedCase, l *budget.Line) row {
	state, r := "ok", row{rank: 2}
	switch {
	case l.Over:
		state, r.rank = "**over**", 0
	case c.past.state == isNew:
		state, r.rank = "new", 1
	case l.LimitText == "":
		state = ""
	}
	model := report.Spans(shown, rowName, rowLines)
	if x.label != "" {
		model += "<br>" + x.label
	}
	if l.Before != nil {
		r.change = share(diff.NewTotal(l.Total, *l.Before, l.Value))
	}
	before, change := moved(l.Total, l.Value, l.Before)
	r.cells = []string{state, model, before, unbroken(report.Size(l.Value)), change, limitText(l)}
	return r
}

// moved writes what a size was before, where that is known, and how it changed.
func moved(total string, now int64, was *int64) (before, change string) {
	if was == nil {
		return "", ""
	}
	t := diff.NewTotal(total, *was, now)
	if change = unbroken(report.Percent(t)); t.Change != 0 {
		change = unbroken(report.Signed(t.Change)) + "<br>" + change
	}
	return unbroken(report.Size(*was)), change
}

// limitText writes a limit: which total it is of where that is not the device memory, and what a growth comes to.
func limitText(l *budget.Line) string {
	switch {
	case l.LimitText == "":
		return "none"
	case l.Limit == nil:
		return l.LimitText
	case l.Total != diff.Device && l.Total != diff.Safe:
		return report.TotalName(l.Total) + " " + unbroken(l.LimitText)
	case report.Size(*l.Limit) != l.LimitText:
		return unbroken(l.LimitText) + ": " + unbroken(report.Size(*l.Limit))
	}
	return unbroken(l.LimitText)
}

func noteText(l *budget.Line) string {
	text := fmt.Sprintf("%s %s", report.TotalName(l.Total), report.Size(l.Value))
	if l.Over {
		text += ", over " + l.LimitText
	}
	if l.Note != "" {
		text += "; " + sentence(l.Note)
	}
	return text
}

// peakMoves says that the peak is in another layer than in the base, or "".
func peakMoves(x *checkedCase) string {
	if x.base == nil || x.base == x.head {
		return ""
	}
	c := diff.Compare("", x.base, x.head)
	if before, after, moved := report.PeakMove(&c); moved {
		return fmt.Sprintf("the peak moves from %s to %s", name(before, listName), name(after, listName))
	}
	return ""
}
