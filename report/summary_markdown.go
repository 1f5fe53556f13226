package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate"
)

// Markdown writes a report for a comment on GitHub, no longer than one may be: the totals,
// the largest layers, and all of them folded away.
func Markdown(w io.Writer, r *estimate.Report) error {
	var head, notes, fold strings.Builder // which do not fail
	fmt.Fprintf(&head, "### `%s`\n\n%s\n\n", Show(r.Model.Name, nameWidth), codeSpan(title(r)))
	if r.Peak != nil {
		peakMarkdown(&head, r)
	}
	Summary(r).Markdown(&head, MarkdownLimit)
	layers := Layers(r, false)
	order := make([]int, len(r.Layers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(r.Layers[b].Activation, r.Layers[a].Activation)
	})
	largest := &Grid{Columns: layers.Columns}
	for _, i := range order[:min(shownLayers, len(order))] {
		largest.Rows = append(largest.Rows, layers.Rows[i])
	}
	fmt.Fprintf(&head, "\nThe largest layers:\n\n")
	largest.Markdown(&head, MarkdownLimit/4)
	for _, n := range r.Notes {
		line := fmt.Sprintf("- %s: %s\n", noteWord(n.Level), codeSpan(n.Text))
		if notes.Len()+len(line) > MarkdownLimit/8 {
			notes.WriteString("- and more\n")
			break
		}
		notes.WriteString(line)
	}
	opening := fmt.Sprintf("\n<details><summary>All %s layers</summary>\n\n", Count(int64(len(r.Layers))))
	closing := "\n</details>\n"
	if notes.Len() > 0 {
		closing += "\n"
	}
	layers.Markdown(&fold, MarkdownLimit-head.Len()-notes.Len()-len(opening)-len(closing))
	_, err := io.WriteString(w, head.String()+opening+fold.String()+closing+notes.String())
	return err
}

// peakMarkdown writes what a comment should begin with: the figures, then why.
func peakMarkdown(b *strings.Builder, r *estimate.Report) {
	for _, s := range Headline(r) {
		fmt.Fprintf(b, "- %s\n", codeSpan(s))
	}
	gs := peakGrids(r)
	all := gs[len(gs)-1]
	all.Rows = slices.DeleteFunc(all.Rows, func(row []string) bool { return row[0] == "likely" }) // for --full
	for _, g := range slices.Backward(gs) {
		b.WriteString("\n")
		g.Markdown(b, MarkdownLimit/8)
	}
	b.WriteString("\n")
}

// codeSpan puts text into a Markdown code span, where nothing is a link or a mention.
func codeSpan(s string) string { return "`" + strings.ReplaceAll(oneLine(s), "`", "'") + "`" }
