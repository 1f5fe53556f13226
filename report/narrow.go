package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Least widths, in characters: what is left of a name that is cut, what a name should have while columns can be left
// out instead, what is left of a text that is broken into lines, and the narrowest terminal there is a table for.
const (
	leastName    = 12
	fairName     = 24
	leastText    = 8
	leastColumns = 40
)

// fit returns a grid whose lines are within width, and the titles of the columns that there was no room for. First
// names are cut and titles broken, then columns are left out, those with the highest Spare first, and then texts are
// broken. Numbers are neither cut nor broken. The rows of the answer are escaped.
func (g *Grid) fit(width int) (*Grid, []string) {
	if width <= 0 {
		limits := make([]int, len(g.Columns))
		for i := range limits {
			limits[i] = nameWidth
		}
		return g.shown(limits), nil
	}
	width = max(width, leastColumns)
	measured := *g
	measured.widths = g.widest()
	g = &measured
	var left []string
	for {
		titles, ok := g.titles(width)
		k := g.sparest()
		if ok || k < 0 {
			limits := g.limits(titles, width)
			out := g.shown(limits)
			for i := range titles {
				out.Columns[i].Title = strings.Join(titles[i], "\n")
			}
			out.breakTexts(width)
			return out, left
		}
		left = append(left, g.Columns[k].Title)
		g = g.without(k)
	}
}

// titles returns the columns' titles, in lines where the grid is within width only so, and whether it is then. A name
// may be cut to fairName for it.
func (g *Grid) titles(width int) (titles [][]string, ok bool) {
	whole, broken := make([][]string, len(g.Columns)), make([][]string, len(g.Columns))
	for i, c := range g.Columns {
		whole[i] = []string{c.Title}
		broken[i] = Break(c.Title, max(g.widths[i], longest(strings.Fields(c.Title))))
	}
	room := func(titles [][]string) bool {
		sum := 0
		for i, c := range g.Columns {
			n := max(g.widths[i], longest(titles[i]))
			if c.File {
				n = min(n, max(fairName, longest(titles[i])))
			}
			sum += n + 2
		}
		return sum <= width
	}
	if room(whole) {
		return whole, true
	}
	return broken, room(broken)
}

// widest returns the length of the longest cell of each column, the footer's included, as it is shown.
func (g *Grid) widest() []int {
	widths := make([]int, len(g.Columns))
	for i, c := range g.Columns {
		if g.Footer != nil {
			widths[i] = utf8.RuneCountInString(g.Footer[i])
		}
		for _, r := range g.Rows {
			n := utf8.RuneCountInString(r[i])
			if c.File && n > 0 {
				n = len(Show(r[i], nameWidth))
			}
			widths[i] = max(widths[i], n)
		}
	}
	return widths
}

// limits returns how long the cells of each column of names may be: what the others leave, so that the
// shortest names are cut last.
func (g *Grid) limits(titles [][]string, width int) []int {
	limits := make([]int, len(g.Columns))
	var names []int
	for i, c := range g.Columns {
		limits[i] = nameWidth
		if c.File {
			names = append(names, i)
			width -= 2
		} else {
			width -= max(g.widths[i], longest(titles[i])) + 2
		}
	}
	slices.SortStableFunc(names, func(a, b int) int { return g.widths[a] - g.widths[b] })
	for k, i := range names {
		limits[i] = min(nameWidth, max(min(g.widths[i], width/(len(names)-k)), leastName))
		width -= limits[i]
	}
	return limits
}

// sparest returns the column to leave out first, or -1.
func (g *Grid) sparest() int {
	at := -1
	for i, c := range g.Columns {
		if c.Spare > 0 && (at < 0 || c.Spare > g.Columns[at].Spare) {
			at = i
		}
	}
	return at
}

// without returns the grid less a column.
func (g *Grid) without(k int) *Grid {
	less := func(cells []string) []string {
		if cells == nil {
			return nil
		}
		return slices.Delete(slices.Clone(cells), k, k+1)
	}
	out := &Grid{Columns: slices.Delete(slices.Clone(g.Columns), k, k+1), Footer: less(g.Footer),
		widths: slices.Delete(slices.Clone(g.widths), k, k+1)}
	for _, r := range g.Rows {
		out.Rows = append(out.Rows, less(r))
	}
	return out
}

// shown returns the grid with its names escaped, and cut to the limits of their columns. Rows without any are shared.
func (g *Grid) shown(limits []int) *Grid {
	out := &Grid{Columns: slices.Clone(g.Columns), Rows: slices.Clone(g.Rows), Footer: g.Footer}
	for k, cells := range g.Rows {
		for i, s := range cells {
			if !g.Columns[i].File || s == "" {
				continue
			}
			if name := Show(s, limits[i]); name != s {
				if &out.Rows[k][0] == &cells[0] {
					out.Rows[k] = slices.Clone(cells)
				}
				out.Rows[k][i] = name
			}
		}
	}
	return out
}

// breakTexts breaks the cells of the widest columns of texts into lines until the grid is within width.
func (g *Grid) breakTexts(width int) {
	widths, sum := make([]int, len(g.Columns)), 0
	for i, c := range g.Columns {
		widths[i] = longest(strings.Split(c.Title, "\n"))
		for _, r := range append(g.Rows[:len(g.Rows):len(g.Rows)], g.Footer) {
			if r != nil {
				widths[i] = max(widths[i], utf8.RuneCountInString(r[i]))
			}
		}
		sum += widths[i] + 2
	}
	narrowed := slices.Clone(widths)
	for ; sum > width; sum-- {
		at := -1
		for i, c := range g.Columns {
			if !c.Right && narrowed[i] > leastText && (at < 0 || narrowed[i] > narrowed[at]) {
				at = i
			}
		}
		if at < 0 {
			return
		}
		narrowed[at]--
	}
	for i := range g.Columns {
		if narrowed[i] == widths[i] {
			continue
		}
		g.Columns[i].Title = strings.Join(Break(strings.ReplaceAll(g.Columns[i].Title, "\n", " "), narrowed[i]), "\n")
		for k, r := range g.Rows {
			if utf8.RuneCountInString(r[i]) > narrowed[i] {
				g.Rows[k] = slices.Clone(r)
				g.Rows[k][i] = strings.Join(Break(r[i], narrowed[i]), "\n")
			}
		}
	}
}

// leftOut says which columns there was no room for.
func leftOut(titles []string) string {
	for i, t := range titles {
		name, _, _ := strings.Cut(t, ",")
		titles[i] = name
		if name == "" {
			titles[i] = "remarks"
		}
	}
	return fmt.Sprintf("(no room for: %s)", strings.Join(titles, ", "))
}

// longest returns the length of the longest text.
func longest(texts []string) int {
	n := 0
	for _, s := range texts {
		n = max(n, utf8.RuneCountInString(s))
	}
	return n
}

// Break breaks a text into lines of at most width characters: at spaces, or else after a character that joins
// parts of a name, or else anywhere.
func Break(s string, width int) (lines []string) {
	for utf8.RuneCountInString(s) > width {
		end := 0 // of the characters that fit
		for range width {
			_, n := utf8.DecodeRuneInString(s[end:])
			end += n
		}
		at := strings.LastIndexByte(s[:end+1], ' ')
		if at <= 0 {
			at = strings.LastIndexAny(s[:end], "/._:-,") + 1
		}
		if at <= 0 {
			at = end
		}
		lines = append(lines, strings.TrimRight(s[:at], " "))
		s = strings.TrimLeft(s[at:], " ")
	}
	return append(lines, s)
}

// Fold breaks the lines of a text that are longer than width, 40 at least, and indents what follows. A width of 0
// leaves the text as it is.
func Fold(text string, width int) string {
	if width <= 0 {
		return text
	}
	width = max(width, leastColumns)
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimSuffix(line, "\n")
		if visible(body) <= width {
			b.WriteString(line)
			continue
		}
		indent := body[:len(body)-len(strings.TrimLeft(body, " "))]
		indent = indent[:min(len(indent), width/2)]
		lines := Break(strings.TrimLeft(body, " "), width-len(indent)-2)
		for i, l := range lines {
			if i > 0 {
				b.WriteString("  ")
			}
			b.WriteString(indent + l + "\n")
		}
	}
	return b.String()
}
