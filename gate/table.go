package gate

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/report"
)

// Table is the one table of a check. With exact, sizes are bytes.
func (o *Outcome) Table(exact bool) *report.Grid {
	g := &report.Grid{Columns: []report.Column{{Title: "verdict"}, {Title: "model", File: true}, {Title: "settings"},
		{Title: "what"}, {Title: "size", Right: true}, {Title: "limit", Right: true},
		{Title: "before", Right: true, Spare: 3}, {Title: "change", Right: true, Spare: 2}, {Title: "note", Spare: 1}}}
	write := report.Size
	if exact {
		write = func(n int64) string { return strconv.FormatInt(n, 10) }
	}
	for _, m := range o.Models {
		for l := range m.lines {
			verdict, before, change := "ok", "", ""
			switch {
			case l.Over:
				verdict = "over"
			case l.LimitText == "":
				verdict = "no limit"
			}
			if l.Before != nil {
				before, change = write(*l.Before), report.Percent(diff.NewTotal(l.Total, *l.Before, l.Value))
				if exact {
					change = write(l.Value - *l.Before)
				}
			}
			g.Rows = append(g.Rows, []string{verdict, l.Model, l.Settings, report.TotalName(l.Total), write(l.Value),
				l.LimitText, before, change, l.Note})
		}
		if m.Err != nil {
			g.Rows = append(g.Rows, []string{"error", m.Name, "", "", "", "", "", "",
				report.Show(report.OneLine(m.Err.Error()), 200)})
		}
	}
	return g
}

// tightest returns the limit of a case that is the nearest to being passed, or passed by the most: the first of those
// whose figure is not known.
func (x *Case) tightest() *budget.Line {
	var best *budget.Line
	most := -1.0
	for i := range x.Lines {
		l := &x.Lines[i]
		used := 0.0
		switch {
		case l.Over && (l.Limit == nil || l.Value <= *l.Limit), l.Limit != nil && *l.Limit <= 0 && l.Value > 0:
			used = math.Inf(1) // whatever the figure is
		case l.Limit != nil && *l.Limit > 0:
			used = float64(l.Value) / float64(*l.Limit)
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

// A row is one of a comment's table.
type row struct {
	cells  []string
	rank   int     // 0 is over a limit, 1 new, 2 the others
	change float64 // share of what was there before
}

// rows makes a row for each model and setting, those over their limits first and then by how much they change, and
// what there is to say of them. Of those that were there and are within their limits only the first open ones are
// in the table; rest has the others. Of names below a folder only the end is shown.
func (o *Outcome) rows(all []*Model, below string, open int) (table, rest *report.Grid, notes []string) {
	var rows []row
	for _, m := range all {
		if m.moved() {
			notes = append(notes, name(m.Name, listName)+" was "+name(m.past.name, listName))
		}
		for i := range m.Cases {
			x := &m.Cases[i]
			l := x.tightest()
			if l == nil {
				continue
			}
			rows = append(rows, m.row(strings.TrimPrefix(m.Name, below), x, l))
			about := name(m.Name, listName)
			if x.Label != "" {
				about += " (" + x.Label + ")"
			}
			for k := range x.Lines {
				if other := &x.Lines[k]; other != l && other.Over || other.Note != "" {
					notes = append(notes, about+": "+noteText(other))
				}
			}
			if x.Base == nil || x.Base == x.Head {
				continue
			}
			c := diff.Compare("", x.Base, x.Head)
			if before, after, moved := report.PeakMove(&c); moved {
				notes = append(notes, fmt.Sprintf("%s: the peak moves from %s to %s", about, name(before, listName),
					name(after, listName)))
			}
		}
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Or(a.rank-b.rank, cmp.Compare(b.change, a.change)) })
	columns := []report.Column{{Title: "state"}, {Title: "model"}, {Title: "before", Right: true},
		{Title: "after", Right: true}, {Title: "change", Right: true}, {Title: "tightest limit"}}
	table, rest = &report.Grid{Columns: columns}, &report.Grid{Columns: columns}
	for _, r := range rows {
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

func (m *Model) row(shown string, x *Case, l *budget.Line) row {
	state, r := "ok", row{rank: 2}
	switch {
	case l.Over:
		state, r.rank = "**over**", 0
	case m.past.state == isNew:
		state, r.rank = "new", 1
	case l.LimitText == "":
		state = ""
	}
	model := report.Spans(shown, rowName, rowLines)
	if x.Label != "" {
		model += "<br>" + x.Label
	}
	before, change := "", ""
	if l.Before != nil {
		t := diff.NewTotal(l.Total, *l.Before, l.Value)
		r.change = share(t)
		before = unbroken(report.Size(*l.Before))
		if change = unbroken(report.Percent(t)); t.Change != 0 {
			change = unbroken(report.Signed(t.Change)) + "<br>" + change
		}
	}
	r.cells = []string{state, model, before, unbroken(report.Size(l.Value)), change, limitText(l)}
	return r
}

// share is a change as a share of what was there before.
func share(t diff.Total) float64 { return float64(t.Change) / float64(max(t.Before, 1)) }

// unbroken keeps a figure and its unit on one line.
func unbroken(s string) string { return strings.ReplaceAll(s, " ", "&nbsp;") }

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

// commonFolder returns the folder that all models are in, with a slash at its end, where the names of some are too
// long to be shown whole; else "".
func commonFolder(all []*Model) string {
	folder, long := path.Dir(all[0].Name)+"/", false
	for _, m := range all {
		long = long || len(m.Name) > rowName
		for folder != "./" && !strings.HasPrefix(m.Name, folder) {
			folder = path.Dir(strings.TrimSuffix(folder, "/")) + "/"
		}
	}
	if !long || len(all) < 2 || folder == "./" || folder == "//" {
		return ""
	}
	return folder
}

// Schema is the name of the form that Result has in JSON. docs/json.md describes it.
const Schema = "memestimate-check/1"

// A Result is an outcome as JSON has it.
type Result struct {
	Schema  string          `json:"schema"`
	Over    int             `json:"over"` // lines that are over their limit
	Base    *Compared       `json:"base,omitempty"`
	Lines   []budget.Line   `json:"lines"`
	Errors  []Failure       `json:"errors"`
	Changes []budget.Change `json:"changes"`
	Removed []Removal       `json:"removed"`
	Moved   []Move          `json:"moved"`
}

// Compared says what was compared.
type Compared struct {
	Revision string `json:"revision,omitempty"` // as somebody named it
	Commit   string `json:"commit"`
	Head     string `json:"head"`
}

// A Failure is a model that could not be estimated.
type Failure struct {
	Model string `json:"model"`
	Error string `json:"error"`
}

// A Move is a model that the base has under another name.
type Move struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Result returns the lines of all models, the errors of those that have none, and what changed since the base.
func (o *Outcome) Result() *Result {
	out := &Result{
		Schema: Schema, Over: o.Count().Lines, Lines: []budget.Line{}, Errors: []Failure{}, Moved: []Move{},
		Changes: append([]budget.Change{}, o.asks...), Removed: append([]Removal{}, o.removed...),
	}
	if o.base != nil {
		out.Base = &Compared{o.base.rev, o.base.commit, o.base.head}
	}
	for _, m := range o.Models {
		for l := range m.lines {
			out.Lines = append(out.Lines, *l)
		}
		if m.Err != nil {
			out.Errors = append(out.Errors, Failure{m.Name, report.OneLine(m.Err.Error())})
		}
		if m.moved() {
			out.Moved = append(out.Moved, Move{m.past.name, m.Name})
		}
	}
	return out
}
