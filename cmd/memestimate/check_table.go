package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/budget"
	"github.com/memestimate/memestimate/diff"
	"github.com/memestimate/memestimate/report"
)

// checkGrid is the one table of a check. With exact, sizes are bytes.
func checkGrid(all []*checked, exact bool) *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "verdict"}, {Title: "model", File: true}, {Title: "settings"}, {Title: "what"},
		{Title: "size", Right: true}, {Title: "limit", Right: true}, {Title: "before", Right: true, Spare: 3}, {Title: "change", Right: true, Spare: 2}, {Title: "note", Spare: 1},
	}}
	for _, c := range all {
		for _, x := range c.cases {
			for _, l := range x.lines {
				g.Rows = append(g.Rows, checkRow(l, exact))
			}
		}
		if c.err != nil {
			g.Rows = append(g.Rows, []string{"error", c.name, "", "", "", "", "", "", "could not be estimated"})
		}
	}
	return g
}

func checkRow(l budget.Line, exact bool) []string {
	size := report.Size
	if exact {
		size = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	before, change := "", ""
	if l.Before != nil {
		before = size(*l.Before)
		change = report.Percent(diff.NewTotal(l.Total, *l.Before, l.Value))
		if exact {
			change = strconv.FormatInt(l.Value-*l.Before, 10)
		}
	}
	verdict := "ok"
	if l.Over {
		verdict = "over"
	}
	return []string{verdict, l.Model, l.Settings, report.TotalName(l.Total), size(l.Value), l.LimitText, before, change, l.Note}
}

// checkMarkdown writes the outcome and the table, in at most limit bytes.
func checkMarkdown(w io.Writer, all []*checked, limit int) error {
	var b strings.Builder
	over, failed := 0, 0
	for _, c := range all {
		for _, x := range c.cases {
			for _, l := range x.lines {
				if l.Over {
					over++
				}
			}
		}
		if c.err != nil {
			failed++
		}
	}
	switch {
	case over > 0:
		fmt.Fprintf(&b, "**%s over budget.**", count(over, "line"))
	default:
		b.WriteString("Within budget.")
	}
	if failed > 0 {
		fmt.Fprintf(&b, " **%s could not be estimated.**", count(failed, "model"))
	}
	b.WriteString("\n\n")
	g := checkGrid(all, false)
	top(g, "over", "error")
	if err := g.Markdown(&b, limit-b.Len()); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// top moves the rows with these verdicts to the front, so that a table that is cut keeps them.
func top(g *report.Grid, verdicts ...string) {
	var first, rest [][]string
	for _, r := range g.Rows {
		bad := false
		for _, v := range verdicts {
			bad = bad || r[0] == v
		}
		if bad {
			first = append(first, r)
		} else {
			rest = append(rest, r)
		}
	}
	g.Rows = append(first, rest...)
}
