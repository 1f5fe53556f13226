package main

import (
	"fmt"
	"strings"

	"github.com/memestimate/memestimate/github"
	"github.com/memestimate/memestimate/report"
)

// Room for what a comment and a summary say, in bytes: some is left for the marker and the last line.
const (
	commentRoom = github.MaxComment - 1024
	summaryRoom = github.MaxSummary - 1024
)

// leastDiff is the room below which a model's diff is left out, in bytes.
const leastDiff = 4096

// commentBody writes the outcome, the table of the check without what stays as it was, and what changes in each model
// that changed, in at most room bytes.
func commentBody(all []*checked, room int) string {
	var b strings.Builder
	b.WriteString("### GPU memory\n\n")
	if room < 2*leastDiff {
		return ""
	}
	var shown, kept []*checked
	for _, c := range all {
		if c.err != nil || c.state != isSame || c.over() {
			shown = append(shown, c)
		} else {
			kept = append(kept, c)
		}
	}
	if err := checkMarkdown(&b, shown, room/3); err != nil {
		return b.String() // a strings.Builder does not fail
	}
	if len(shown) == 0 {
		b.Reset()
		b.WriteString("### GPU memory\n\nNo model changes, and all are within budget.\n")
	}
	if len(kept) > 0 {
		fmt.Fprintf(&b, "\n<details><summary>%s unchanged and within budget</summary>\n\n", count(len(kept), "model"))
		g := checkGrid(kept, false)
		g.Markdown(&b, room/6)
		b.WriteString("\n</details>\n")
	}
	left := 0
	for i, c := range shown {
		d, ok := c.diff()
		if c.state != isChanged || !ok {
			continue
		}
		share := (room - b.Len() - 256) / min(len(shown)-i, 4)
		if share < leastDiff {
			left++
			continue
		}
		b.WriteString("\n")
		report.DiffMarkdown(&b, d, share)
	}
	if left > 0 {
		fmt.Fprintf(&b, "\nWhat changes in %s more is left out: memestimate diff tells it.\n", count(left, "model"))
	}
	return b.String()
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
