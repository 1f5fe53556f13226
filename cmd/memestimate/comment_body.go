package main

import (
	"cmp"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/budget"
	"github.com/memestimate/memestimate/diff"
	"github.com/memestimate/memestimate/forge"
	"github.com/memestimate/memestimate/report"
)

// Room for what a comment and a summary say, in bytes: some is left for the marker and the last line.
const (
	commentRoom = forge.MaxComment - 1024
	summaryRoom = forge.MaxSummary - 1024
)

// docsPage says what a comment means.
const docsPage = "https://github.com/memestimate/memestimate/blob/main/docs/pull-requests.md#the-comment"

// leastDiff is the room below which a model's diff is left out, in bytes.
const leastDiff = 4096

// Names and sentences in a comment have so many characters: GitHub's column has 746 pixels, and a code span does not
// break.
const (
	rowName  = 28 // a line
	rowLines = 3
	listName = 90
	listText = 600
)

// How much of what there may be a lot of stands open; the rest is folded away.
const (
	openRows  = 10 // that are within their limits
	openItems = 5
)

// commentBody writes the outcome, what is wrong, a row for each model and setting but those that stay as they were,
// and with diffs what changes in each model, in at most room bytes.
func commentBody(o *outcome, room int, diffs bool) string {
	if room < 2*leastDiff {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "### GPU memory: %s\n\n", o.headline())
	end := o.footer()
	o.writeWrong(&b, room/6)
	o.writeChanges(&b, room/6)
	var shown, kept []*checked
	for _, c := range o.all {
		if c.err == nil && c.past.state == isSame && !c.moved() && !c.over() {
			kept = append(kept, c)
		} else if len(c.cases) > 0 {
			shown = append(shown, c)
		}
	}
	if len(shown) > 0 {
		below := commonFolder(shown)
		if below != "" {
			fmt.Fprintf(&b, "Models of %s:\n\n", name(below, listName))
		}
		g, rest, notes := o.rows(shown, below, openRows)
		if len(g.Rows) > 0 {
			g.Markdown(&b, room/4) // a strings.Builder does not fail
			b.WriteString("\n")
		}
		if len(rest.Rows) > 0 {
			writeTable(&b, report.Count(int64(len(rest.Rows)))+" more of these", rest, room/8)
		}
		writeFold(&b, count(len(notes), "note"), notes, room/8)
	}
	if len(kept) > 0 {
		g, _, _ := o.rows(kept, "", math.MaxInt)
		summary := count(len(kept), "model") + " unchanged"
		if o.count().limited > 0 {
			summary += " and within budget"
		}
		writeTable(&b, summary, g, room/8)
	}
	if diffs {
		writeDiffs(&b, shown, room-len(end))
	}
	b.WriteString(end)
	return b.String()
}

// headline says in a few words what came of the check. Within budget is only what has one, and was held against it.
func (o *outcome) headline() string {
	n := o.count()
	switch {
	case o.err != nil:
		return "not checked"
	case n.over > 0 && n.failed > 0:
		return fmt.Sprintf("%s over budget, %d not checked", count(n.over, "model"), n.failed)
	case n.over > 0:
		return fmt.Sprintf("%s of %s over budget", report.Count(int64(n.over)), count(len(o.all), "model"))
	case n.failed > 0:
		return fmt.Sprintf("%s not checked", count(n.failed, "model"))
	case n.limited == 0:
		return "no limits are set"
	}
	return "within budget"
}

// writeWrong writes why something could not be checked, in about limit bytes.
func (o *outcome) writeWrong(b *strings.Builder, limit int) {
	if o.err != nil {
		fmt.Fprintf(b, "**The check could not be made:** %s\n\n", sentence(oneLine(o.err.Error())))
		if hint := hintOf(o.err); hint != "" {
			fmt.Fprintf(b, "Hint: %s\n\n", sentence(oneLine(hint)))
		}
		if len(o.all) == 0 {
			return
		}
	}
	var list []string
	for _, c := range o.all {
		if c.err != nil {
			list = append(list, name(c.name, listName)+": "+sentence(oneLine(c.err.Error())))
		}
	}
	if len(list) > 0 {
		fmt.Fprintf(b, "**%s could not be estimated:**\n\n", count(len(list), "model"))
		writeMany(b, list, limit)
	}
}

// writeChanges writes what the budget file asks now that it did not ask in the base, and which models nobody checks
// any more.
func (o *outcome) writeChanges(b *strings.Builder, limit int) {
	var list []string
	for _, c := range o.asks {
		text := fmt.Sprintf("`%s` goes from %s to %s", c.What, asked(c.Before), asked(c.After))
		if len(c.Models) > 0 {
			text += " for " + name(c.Models[0], listName)
		}
		if more := len(c.Models) - 1; more > 0 {
			text += fmt.Sprintf(" and %s more", report.Count(int64(more)))
		}
		list = append(list, text)
	}
	if len(list) > 0 {
		b.WriteString("**What is asked of models changes here:**\n\n")
		writeMany(b, list, limit)
	}
	list = nil
	for _, r := range o.removed {
		list = append(list, name(r.Model, listName)+": "+r.Why)
	}
	if len(list) > 0 {
		fmt.Fprintf(b, "**%s no longer checked:**\n\n", count(len(list), "model"))
		writeMany(b, list, limit)
	}
	if o.was != "" && o.base != nil && len(o.all) > 0 {
		fmt.Fprintf(b, "Whether limits change is not known: %s.\n\n", sentence(o.was))
	}
}

func asked(value string) string {
	if value == "" {
		return "nothing"
	}
	return sentence(report.Clean(value[:min(len(value), listName)]))
}

// writeList writes items in about limit bytes, and says how many are left out.
func writeList(b *strings.Builder, items []string, limit int) {
	for i, s := range items {
		if limit -= len(s); limit < 0 && i > 0 {
			fmt.Fprintf(b, "- and %s more\n", report.Count(int64(len(items)-i)))
			break
		}
		fmt.Fprintf(b, "- %s\n", s)
	}
	b.WriteString("\n")
}

// writeMany writes items that a reader must see, in about limit bytes: the first of them open, the rest folded away.
func writeMany(b *strings.Builder, items []string, limit int) {
	if len(items) <= openItems+1 {
		writeList(b, items, limit)
		return
	}
	writeList(b, items[:openItems], limit/2)
	writeFold(b, report.Count(int64(len(items)-openItems))+" more", items[openItems:], limit/2)
}

// writeTable writes a table folded away, in about limit bytes.
func writeTable(b *strings.Builder, summary string, g *report.Grid, limit int) {
	fmt.Fprintf(b, "<details><summary>%s</summary>\n\n", summary)
	g.Markdown(b, limit)
	b.WriteString("\n</details>\n\n")
}

// writeFold writes items folded away.
func writeFold(b *strings.Builder, summary string, items []string, limit int) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(b, "<details><summary>%s</summary>\n\n", summary)
	writeList(b, items, limit)
	b.WriteString("</details>\n\n")
}

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
	before, change := "", ""
	if l.Before != nil {
		t := diff.NewTotal(l.Total, *l.Before, l.Value)
		before, change = report.Size(*l.Before), unbroken(report.Percent(t))
		if t.Change != 0 {
			change = unbroken(report.Signed(t.Change)) + "<br>" + change
		}
		r.change = float64(t.Change) / float64(max(t.Before, 1))
	}
	r.cells = []string{state, model, unbroken(before), unbroken(report.Size(l.Value)), change, limitText(l)}
	return r
}

// limitText writes a limit: which total it is of where that is not the device memory, and what a growth comes to.
func limitText(l *budget.Line) string {
	switch {
	case l.LimitText == "":
		return "none"
	case l.Limit == nil:
		return l.LimitText
	case l.Total != diff.Device:
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

// writeDiffs writes what changes in each model that did, folded away, and how many found no room.
func writeDiffs(b *strings.Builder, models []*checked, room int) {
	left := 0
	for i, c := range models {
		d, ok := c.diff()
		if c.past.state != isChanged || !ok {
			continue
		}
		share := (room - b.Len() - 256) / min(len(models)-i, 4)
		if share < leastDiff {
			left++
			continue
		}
		b.WriteString(report.DiffFold(d, share))
	}
	if left > 0 {
		fmt.Fprintf(b, "What changes in %s more is left out: memestimate diff tells it.\n\n", count(left, "model"))
	}
}

// footer says what was compared, when, and with what, and where its words are explained.
func (o *outcome) footer() string {
	text := ""
	if o.base != nil && o.base.commit != "" {
		text = fmt.Sprintf("`%.7s...%.7s`, ", o.base.commit, o.base.head)
		if o.base.commit == o.base.head {
			text = fmt.Sprintf("the files after `%.7s`, ", o.base.commit)
		}
		if o.base.rev != "" {
			text = fmt.Sprintf("base %s, %s", name(o.base.rev, rowName), text)
		}
	}
	text += fmt.Sprintf("%s, %s. [What this says](%s)", o.when.UTC().Format("2 Jan 2006 15:04 UTC"), shortVersion(),
		docsPage)
	if o.page != "" {
		text += fmt.Sprintf(", [the job](%s)", o.page)
	}
	return text + "\n"
}

// name shows a name from a file as code, its middle cut where it is long.
func name(s string, limit int) string { return "`" + report.Short(s, limit) + "`" }

// sentence shows words that a file may have put names into: as code, so that nothing in them acts.
func sentence(s string) string {
	if len(s) > listText {
		s = strings.ToValidUTF8(s[:listText-3], "") + "..."
	}
	s = strings.NewReplacer("`", "'", "\n", " ", "\r", " ").Replace(report.Clean(s))
	return "`" + s + "`"
}

// over reports whether a line of the model is over its limit.
func (c *checked) over() bool {
	for _, x := range c.cases {
		for _, l := range x.lines {
			if l.Over {
				return true
			}
		}
	}
	return false
}
