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
	var head, notes, fold strings.Builder
	fmt.Fprintf(&head, "### `%s`\n\n%s\n\n", Show(r.Model.Name, nameWidth), codeSpan(title(r)))
	if err := peakMarkdown(&head, r); err != nil {
		return err
	}
	if err := Summary(r).Markdown(&head, MarkdownLimit); err != nil {
		return err
	}
	layers := Layers(r, false)
	largest := *layers
	order := make([]int, len(r.Layers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(r.Layers[b].Activation, r.Layers[a].Activation)
	})
	largest.Rows = nil
	for _, i := range order[:min(shownLayers, len(order))] {
		largest.Rows = append(largest.Rows, layers.Rows[i])
	}
	largest.Footer = nil
	fmt.Fprintf(&head, "\nThe largest layers:\n\n")
	if err := largest.Markdown(&head, MarkdownLimit/4); err != nil {
		return err
	}
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
	room := MarkdownLimit - head.Len() - notes.Len() - len(opening) - len(closing)
	if err := layers.Markdown(&fold, room); err != nil {
		return err
	}
	_, err := io.WriteString(w, head.String()+opening+fold.String()+closing+notes.String())
	return err
}

// peakMarkdown writes what a comment should begin with: the figures, then why.
func peakMarkdown(w io.Writer, r *estimate.Report) error {
	if r.Peak == nil {
		return nil
	}
	for _, s := range Headline(r) {
		if _, err := fmt.Fprintf(w, "- %s\n", codeSpan(s)); err != nil {
			return err
		}
	}
	gs := peakGrids(r)
	all := gs[len(gs)-1]
	all.Rows = slices.DeleteFunc(all.Rows, func(row []string) bool { return row[0] == "likely" }) // for --full
	slices.Reverse(gs)
	for _, g := range gs {
		if _, err := io.WriteString(w, "\n"); err != nil {
			return err
		}
		if err := g.Markdown(w, MarkdownLimit/8); err != nil {
			return err
		}
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// codeSpan puts text into a Markdown code span, where nothing is a link or a mention.
func codeSpan(s string) string { return "`" + strings.ReplaceAll(oneLine(s), "`", "'") + "`" }
