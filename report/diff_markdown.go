package report

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/gate/diff"
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
	switch {
	case len(d.Cases) == 0:
	case d.Empty():
		t := headline(&d.Cases[0])
		fmt.Fprintf(&b, "Nothing changes: %s layers, %s %s.\n", Count(int64(d.Cases[0].Same)), totalNames[t.Name],
			Size(t.After))
	default:
		changesMarkdown(&b, d, limit)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// changesMarkdown writes the outcome, the table, and the layers folded away.
func changesMarkdown(b *strings.Builder, d *diff.Diff, limit int) {
	fmt.Fprintf(b, "%s\n\n", outcome(d))
	diffTable(d).Markdown(b, limit/4) // a strings.Builder does not fail
	written := 0
	for i := range d.Cases {
		room := (limit - b.Len() - 128) / (len(d.Cases) - i)
		if room < 1024 {
			break
		}
		caseFold(b, &d.Cases[i], len(d.Cases) > 1, room)
		written++
	}
	if left := len(d.Cases) - written; left > 0 {
		fmt.Fprintf(b, "\nThe layers under %s more settings are left out.\n", Count(int64(left)))
	}
}

// DiffFold writes a diff as one fold, named by the model and what happens to its layers, in at most room bytes, which
// must be 4096 at least. It is for a place that says the outcome itself.
func DiffFold(d *diff.Diff, room int) string {
	var b strings.Builder
	summary := "nothing changes"
	if len(d.Cases) > 0 && !d.Empty() {
		summary = DiffSummary(&d.Cases[0])
	}
	fmt.Fprintf(&b, "<details><summary><code>%s</code> %s</summary>\n\n", html.EscapeString(Short(d.Head.Name, foldName)),
		summary)
	const closing = "</details>\n\n"
	if d.Base.Name != d.Head.Name {
		fmt.Fprintf(&b, "It was `%s`.\n\n", Short(d.Base.Name, foldName))
	}
	diffTable(d).Markdown(&b, room/4) // a strings.Builder does not fail
	b.WriteString("\n")
	if len(d.Cases) > 0 {
		c := &d.Cases[0] // layers change alike under all settings, but for their sizes
		caseRemarks(&b, c)
		if len(d.Cases) > 1 && c.Label != "" && len(c.Layers) > 0 {
			fmt.Fprintf(&b, "The layers under %s:\n\n", c.Label)
		}
		if g := layersNarrow(c); len(g.Rows) > 0 {
			g.Markdown(&b, room-b.Len()-len(closing)-1)
			b.WriteString("\n")
		}
	}
	return b.String() + closing
}

// Widths of names that keep a table within the 746 pixels of a comment on GitHub.
const (
	foldName  = 90
	cellName  = 34
	cellShape = 120 // a shape breaks at its spaces
)

// layersNarrow is DiffLayers for a comment: the operator and what comes out stand below the name. Layers that are only
// renamed, which cost nothing, come last.
func layersNarrow(c *diff.Case) *Grid {
	g := &Grid{Columns: []Column{{Title: "change"}, {Title: "layer"}, {Title: "parameters", Right: true},
		{Title: "activation", Right: true}, {Title: "saved", Right: true}}}
	name := func(l *module.Layer) string { return Spans(layerName(l), cellName, 2) }
	op := func(l *module.Layer) string { return "`" + Short(l.Op, cellName) + "`" }
	shape := func(l *module.Layer) string {
		s := cmp.Or(Outputs(l), "?")
		if len(s) > cellShape {
			s = s[:cellShape-3] + "..."
		}
		return "`" + s + "`"
	}
	cell := func(l *module.Layer) string { return name(l) + "<br>" + op(l) + " " + shape(l) }
	for _, kind := range [][]string{{diff.Added, diff.Removed, diff.Changed}, {diff.Renamed}} {
		for _, l := range c.Layers {
			if !slices.Contains(kind, l.Kind) {
				continue
			}
			what := ""
			switch {
			case l.Base == nil:
				what = cell(l.Head)
			case l.Head == nil:
				what = cell(l.Base)
			case l.Kind == diff.Renamed:
				what = name(l.Head) + "<br>was " + name(l.Base)
			case layerName(l.Base) != layerName(l.Head):
				what = cell(l.Head) + "<br>was " + cell(l.Base)
			case l.Base.Op != l.Head.Op:
				what = cell(l.Head) + "<br>was " + op(l.Base) + " " + shape(l.Base)
			case Outputs(l.Base) != Outputs(l.Head):
				what = name(l.Head) + "<br>" + op(l.Head) + " " + shape(l.Base) + " -> " + shape(l.Head)
			default:
				what = cell(l.Head)
			}
			g.Rows = append(g.Rows, []string{l.Kind, what, signedCount(l.Params), signedSize(l.Activation), signedSize(l.Saved)})
		}
	}
	return g
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
	return fmt.Sprintf("The %s goes from %s to **%s** (**%s**, %s)%s.", totalNames[t.Name], Size(t.Before), Size(t.After),
		Signed(t.Change), Percent(t), under)
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

// caseRemarks says what figures do not.
func caseRemarks(b *strings.Builder, c *diff.Case) {
	if s := peakMove(c); s != "" {
		fmt.Fprintf(b, "%s\n\n", codeSpan(s))
	}
	if c.Partial {
		b.WriteString("Not every operator is modelled: the figures are lower bounds.\n\n")
	}
}

// caseFold writes what changes under one pair of settings, folded away, in at most room bytes.
func caseFold(b *strings.Builder, c *diff.Case, named bool, room int) {
	if len(c.Layers) == 0 {
		return
	}
	summary := DiffSummary(c)
	if named && c.Label != "" {
		summary = c.Label + ": " + summary
	}
	end := b.Len() + room
	fmt.Fprintf(b, "\n<details><summary>%s</summary>\n\n", summary)
	const closing = "\n</details>\n"
	caseRemarks(b, c)
	layersNarrow(c).Markdown(b, end-b.Len()-len(closing)) // a strings.Builder does not fail
	b.WriteString(closing)
}
