package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/gate/forge"
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
	fmt.Fprintf(&b, "### GPU memory: %s\n\n", o.headline()+o.mostGrown())
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

// mostGrown says for the headline, which is all that a notification shows, how the device memory of the model and
// setting changes that grows the most; "" where none changes.
func (o *outcome) mostGrown() string {
	var most diff.Total
	changes := 0
	for _, c := range o.all {
		for _, x := range c.cases {
			if x.base == nil || x.base.Peak == nil || x.head.Peak == nil || x.base.Peak.Device == x.head.Peak.Device {
				continue
			}
			t := diff.NewTotal(diff.Device, x.base.Peak.Device, x.head.Peak.Device)
			if changes++; changes == 1 || share(t) > share(most) {
				most = t
			}
		}
	}
	switch {
	case changes == 0 || o.err != nil:
		return ""
	case changes == 1:
		return fmt.Sprintf(", %s (%s)", report.Signed(most.Change), report.Percent(most))
	}
	return fmt.Sprintf(", %s (%s) at most", report.Signed(most.Change), report.Percent(most))
}

// share is a change as a share of what was there before.
func share(t diff.Total) float64 { return float64(t.Change) / float64(max(t.Before, 1)) }

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
			text := strings.TrimPrefix(oneLine(c.err.Error()), quoteArg(c.in.file)+": ") // which the name stands for
			list = append(list, name(c.name, listName)+": "+sentence(text))
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
		text := name(r.Model, listName) + ": " + r.Why
		if r.To != "" {
			text += " to " + name(r.To, listName)
		}
		list = append(list, text)
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
	if len(value) > listName {
		value = strings.ToValidUTF8(value[:listName-3], "") + "..."
	}
	return sentence(value)
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
