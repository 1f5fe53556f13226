package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/memestimate/memestimate/diff"
)

// DiffMarkdown writes a diff for a comment on GitHub in at most limit bytes, which must be
// 4096 at least: the outcome, one table, and the layers folded away.
func DiffMarkdown(w io.Writer, d *diff.Diff, limit int) error {
	var b strings.Builder
	name := "`" + Show(d.Head.Name, nameWidth) + "`"
	if d.Base.Name != d.Head.Name {
		name = "`" + Show(d.Base.Name, nameWidth) + "` -> " + name
	}
	fmt.Fprintf(&b, "### %s\n\n", name)
	if len(d.Cases) == 0 {
		_, err := io.WriteString(w, b.String())
		return err
	}
	if d.Empty() {
		fmt.Fprintf(&b, "Nothing changes: %s layers, %s.\n", Count(int64(d.Cases[0].Same)), sizesNow(d))
		_, err := io.WriteString(w, b.String())
		return err
	}
	fmt.Fprintf(&b, "%s\n\n", outcome(d))
	if err := diffTable(d).Markdown(&b, limit/4); err != nil {
		return err
	}
	written := 0
	for i := range d.Cases {
		room := (limit - b.Len() - 128) / (len(d.Cases) - i)
		if room < 1024 {
			break
		}
		fold, err := caseFold(&d.Cases[i], len(d.Cases) > 1, room)
		if err != nil {
			return err
		}
		b.WriteString(fold)
		written++
	}
	if left := len(d.Cases) - written; left > 0 {
		fmt.Fprintf(&b, "\nThe layers under %s more settings are left out.\n", Count(int64(left)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// outcome is the line that somebody in a hurry reads.
func outcome(d *diff.Diff) string {
	worst := 0
	for i := range d.Cases {
		if headline(&d.Cases[i]).Change > headline(&d.Cases[worst]).Change {
			worst = i
		}
	}
	t := headline(&d.Cases[worst])
	under := ""
	if len(d.Cases) > 1 {
		under = " (" + d.Cases[worst].Label + ")"
	}
	if t.Change == 0 {
		return fmt.Sprintf("The %s stays at **%s**%s.", totalNames[t.Name], Size(t.After), under)
	}
	return fmt.Sprintf("The %s goes from %s to **%s** (**%s**, %s)%s.", totalNames[t.Name], Size(t.Before), Size(t.After), Signed(t.Change), Percent(t), under)
}

func sizesNow(d *diff.Diff) string {
	t := headline(&d.Cases[0])
	return totalNames[t.Name] + " " + Size(t.After)
}

// diffTable is the one table of a diff: the totals under the only settings, or a line for each.
func diffTable(d *diff.Diff) *Grid {
	if len(d.Cases) > 1 {
		return DiffCases(d)
	}
	g, same := DiffTotals(&d.Cases[0])
	if len(same) > 0 {
		g.Rows = append(g.Rows, []string{"the same: " + strings.Join(same, ", "), "", "", "", "="})
	}
	return g
}

// caseFold is what changes under one pair of settings, folded away, in at most room bytes.
func caseFold(c *diff.Case, named bool, room int) (string, error) {
	if len(c.Layers) == 0 {
		return "", nil
	}
	summary := DiffSummary(c)
	if named && c.Label != "" {
		summary = c.Label + ": " + summary
	}
	var b strings.Builder
	fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n\n", summary)
	const closing = "\n</details>\n"
	if s := peakMove(c); s != "" {
		fmt.Fprintf(&b, "%s\n\n", codeSpan(s))
	}
	if c.Partial {
		b.WriteString("Not every operator is modelled: the figures are lower bounds.\n\n")
	}
	g := DiffLayers(c, nameWidth, diff.Added, diff.Removed, diff.Changed)
	if n := c.Count(diff.Renamed); n > 0 { // last, since they cost nothing
		g.Rows = append(g.Rows, DiffLayers(c, nameWidth, diff.Renamed).Rows...)
	}
	if err := g.Markdown(&b, room-b.Len()-len(closing)); err != nil {
		return "", err
	}
	return b.String() + closing, nil
}
