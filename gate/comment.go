package gate

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/report"
)

// Room for what a comment and a summary say, in bytes: some is left for the marker and the last line.
const (
	CommentRoom = forge.MaxComment - 1024
	SummaryRoom = forge.MaxSummary - 1024
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

// A comment is the text of one in the making.
type comment struct {
	strings.Builder
	o    *Outcome
	room int // in bytes
}

// Comment writes the outcome in at most room bytes: what this change does to its own limits, what is wrong, a row for
// each model and setting but those that stay as they were, and with diffs what changes in each model.
func (o *Outcome) Comment(room int, diffs bool) string {
	if room < 2*leastDiff {
		return ""
	}
	end := o.footer()
	c := &comment{o: o, room: room - len(end)}
	fmt.Fprintf(c, "### GPU memory: %s\n\n", o.headline()+o.mostGrown())
	c.limits(room / 6)
	c.wrong(room / 6)
	c.models(room)
	if diffs {
		c.diffs()
	}
	return c.String() + end
}

// headline says in a few words what came of the check. Within budget is only what has one, and was held against it.
func (o *Outcome) headline() string {
	n := o.Count()
	text := "within budget"
	switch {
	case o.Err != nil:
		return "not checked"
	case n.Over > 0 && n.Failed > 0:
		text = fmt.Sprintf("%s over budget, %d not checked", report.Plural(n.Over, "model"), n.Failed)
	case n.Over > 0:
		text = fmt.Sprintf("%s of %s over budget", report.Count(int64(n.Over)), report.Plural(len(o.Models), "model"))
	case n.Failed > 0:
		text = fmt.Sprintf("%s not checked", report.Plural(n.Failed, "model"))
	case n.Limited == 0:
		text = "no limits are set"
	}
	if len(o.Loosened()) > 0 {
		text += ", and this change loosens limits"
	}
	return text
}

// Loosened says, a line each, what this change does to its own limits that lets more pass.
func (o *Outcome) Loosened() (out []string) {
	for _, c := range o.asks {
		if c.Loosens {
			out = append(out, changeText(&c))
		}
	}
	return out
}

func changeText(c *budget.Change) string {
	text := fmt.Sprintf("`%s` goes from %s to %s", c.What, asked(c.Before), asked(c.After))
	if len(c.Models) > 0 {
		text += " for " + name(c.Models[0], listName)
	}
	if more := len(c.Models) - 1; more > 0 {
		text += fmt.Sprintf(" and %s more", report.Count(int64(more)))
	}
	return text
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

// mostGrown says for the headline, which is all that a notification shows, how the device memory of the model and
// setting changes that grows the most; "" where none changes.
func (o *Outcome) mostGrown() string {
	var most diff.Total
	changes := 0
	for _, m := range o.Models {
		for _, x := range m.Cases {
			if x.Base == nil || x.Base.Peak == nil || x.Head.Peak == nil || x.Base.Peak.Device == x.Head.Peak.Device {
				continue
			}
			t := diff.NewTotal(diff.Device, x.Base.Peak.Device, x.Head.Peak.Device)
			if changes++; changes == 1 || share(t) > share(most) {
				most = t
			}
		}
	}
	if changes == 0 || o.Err != nil {
		return ""
	}
	text := fmt.Sprintf(", %s (%s)", report.Signed(most.Change), report.Percent(most))
	if changes > 1 {
		text += " at most"
	}
	return text
}

// limits writes what the budget file asks now that it did not ask in the base, what loosens it first and all in the
// open, and which models nobody checks any more.
func (c *comment) limits(limit int) {
	if loosened := c.o.Loosened(); len(loosened) > 0 {
		c.WriteString("**This change loosens its own limits:**\n\n")
		c.list(loosened, limit)
	}
	var gone, others []string
	for _, r := range c.o.removed {
		text := name(r.Model, listName) + ": " + r.Why
		if r.To != "" {
			text += " to " + name(r.To, listName)
		}
		gone = append(gone, text)
	}
	c.many(report.Plural(len(gone), "model")+" no longer checked", gone, limit)
	for _, x := range c.o.asks {
		if !x.Loosens {
			others = append(others, changeText(&x))
		}
	}
	c.many("What is asked of models changes here", others, limit)
	if c.o.was != "" && c.o.base != nil && len(c.o.Models) > 0 {
		fmt.Fprintf(c, "Whether limits change is not known: %s.\n\n", sentence(c.o.was))
	}
}

// wrong writes why something could not be checked.
func (c *comment) wrong(limit int) {
	if err := c.o.Err; err != nil {
		fmt.Fprintf(c, "**The check could not be made:** %s\n\n", sentence(report.OneLine(err.Error())))
		var advised interface{ Hint() string }
		if errors.As(err, &advised) && advised.Hint() != "" {
			fmt.Fprintf(c, "Hint: %s\n\n", sentence(report.OneLine(advised.Hint())))
		}
	}
	var list []string
	for _, m := range c.o.Models {
		if m.Err != nil {
			text := strings.TrimPrefix(report.OneLine(m.Err.Error()), report.QuoteArg(m.File)+": ") // which the name stands for
			list = append(list, name(m.Name, listName)+": "+sentence(text))
		}
	}
	c.many(report.Plural(len(list), "model")+" could not be estimated", list, limit)
}

// models writes the tables: of what changed or is over, and folded away of what stays as it was.
func (c *comment) models(room int) {
	shown, kept := c.o.shown()
	if len(shown) > 0 {
		below := commonFolder(shown)
		if below != "" {
			fmt.Fprintf(c, "Models of %s:\n\n", name(below, listName))
		}
		g, rest, notes := c.o.rows(shown, below, openRows)
		if len(g.Rows) > 0 {
			g.Markdown(c, room/4) // a strings.Builder does not fail
			c.WriteString("\n")
		}
		if len(rest.Rows) > 0 {
			c.fold(report.Count(int64(len(rest.Rows)))+" more of these", func() { rest.Markdown(c, room/8) })
		}
		if len(notes) > 0 {
			c.fold(report.Plural(len(notes), "note"), func() { c.items(notes, room/8) })
		}
	}
	if len(kept) > 0 {
		g, _, _ := c.o.rows(kept, "", math.MaxInt)
		summary := report.Plural(len(kept), "model") + " unchanged"
		if c.o.Count().Limited > 0 {
			summary += " and within budget"
		}
		c.fold(summary, func() { g.Markdown(c, room/8) })
	}
}

// shown parts the models into those that changed, or are over a limit, and those that stay as they were.
func (o *Outcome) shown() (shown, kept []*Model) {
	for _, m := range o.Models {
		if m.Err == nil && m.past.state == isSame && !m.moved() && !m.over() {
			kept = append(kept, m)
		} else if len(m.Cases) > 0 {
			shown = append(shown, m)
		}
	}
	return shown, kept
}

// diffs writes what changes in each model that did, folded away, and how many found no room.
func (c *comment) diffs() {
	left := 0
	shown, _ := c.o.shown()
	for i, m := range shown {
		d, ok := m.diff()
		if m.past.state != isChanged || !ok {
			continue
		}
		share := (c.room - c.Len() - 256) / min(len(shown)-i, 4)
		if share < leastDiff {
			left++
			continue
		}
		c.WriteString(report.DiffFold(d, share))
	}
	if left > 0 {
		fmt.Fprintf(c, "What changes in %s more is left out: memestimate diff tells it.\n\n", report.Plural(left, "model"))
	}
}

// items writes a list in about limit bytes, and says how many are left out.
func (c *comment) items(items []string, limit int) {
	for i, s := range items {
		if limit -= len(s); limit < 0 && i > 0 {
			fmt.Fprintf(c, "- and %s more\n", report.Count(int64(len(items)-i)))
			return
		}
		fmt.Fprintf(c, "- %s\n", s)
	}
}

// list writes items and a blank line.
func (c *comment) list(items []string, limit int) {
	c.items(items, limit)
	c.WriteString("\n")
}

// many writes items, if any, that a reader must see, in about limit bytes: the first of them open, the rest folded
// away.
func (c *comment) many(title string, items []string, limit int) {
	if len(items) == 0 {
		return
	}
	fmt.Fprintf(c, "**%s:**\n\n", title)
	if len(items) <= openItems+1 {
		c.list(items, limit)
		return
	}
	c.list(items[:openItems], limit/2)
	rest := items[openItems:]
	c.fold(report.Count(int64(len(rest)))+" more", func() { c.items(rest, limit/2) })
}

// fold writes something folded away.
func (c *comment) fold(summary string, write func()) {
	fmt.Fprintf(c, "<details><summary>%s</summary>\n\n", summary)
	write()
	c.WriteString("\n</details>\n\n")
}

// footer says what was compared, when, and with what, and where its words are explained.
func (o *Outcome) footer() string {
	text := ""
	if b := o.base; b != nil && b.commit != "" {
		text = fmt.Sprintf("`%.7s...%.7s`, ", b.commit, b.head)
		if b.commit == b.head {
			text = fmt.Sprintf("the files after `%.7s`, ", b.commit)
		}
		if b.rev != "" {
			text = fmt.Sprintf("base %s, %s", name(b.rev, rowName), text)
		}
	}
	text += fmt.Sprintf("%s, %s. [What this says](%s)", o.when.UTC().Format("2 Jan 2006 15:04 UTC"), o.version, docsPage)
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
	return "`" + strings.NewReplacer("`", "'", "\n", " ", "\r", " ").Replace(report.Clean(s)) + "`"
}
