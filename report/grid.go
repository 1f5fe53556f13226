package report

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A Column is a column of a Grid.
type Column struct {
	Title string
	Right bool // numbers
	File  bool // its cells are names from a file: they are escaped as each output needs
	Code  bool // its cells have names from a file inside that went through Show
	Spare int  // where there is no room, the column with the highest is left out first; 0 stays
}

// A Grid is a table before it has a form. The first column should not come from a
// file, so that no line of the output begins with a file's words.
type Grid struct {
	Columns []Column
	Rows    [][]string
	Footer  []string // totals; nil when there are none

	widths []int // of the columns, while a width is fitted
}

// MarkdownLimit is the length of a comment on GitHub, in characters.
const MarkdownLimit = 65536

// Text writes the grid with aligned columns. With a width above 0, lines stay within it, as fit makes them; where
// columns had to go a line says which.
func (g *Grid) Text(w io.Writer, width int) error {
	g, left := g.fit(width)
	titles, widths := make([]string, len(g.Columns)), make([]int, len(g.Columns))
	for i, c := range g.Columns {
		titles[i] = c.Title
	}
	measure := func(cells []string) {
		for i, s := range cells {
			widths[i] = max(widths[i], longest(strings.Split(s, "\n")))
		}
	}
	measure(titles)
	measure(g.Footer)
	for _, r := range g.Rows {
		measure(r)
	}
	rule := 0
	for _, n := range widths {
		rule += n + 2
	}
	b := bufio.NewWriterSize(w, 1<<16)
	spaces, dashes := strings.Repeat(" ", rule), strings.Repeat("-", rule)+"\n"
	line := func(cells []string) {
		pending := 0 // spaces that are written only before something else
		for i, s := range cells {
			pad := widths[i] - utf8.RuneCountInString(s)
			if g.Columns[i].Right {
				pending += pad
				pad = 0
			}
			if s != "" {
				b.WriteString(spaces[:pending])
				b.WriteString(s)
				pending = 0
			}
			pending += pad + 2
		}
		b.WriteByte('\n')
	}
	if height := tallest(titles); height > 1 { // titles stand on the rule
		for i, t := range titles {
			titles[i] = strings.Repeat("\n", height-1-strings.Count(t, "\n")) + t
		}
	}
	eachLine(titles, line)
	b.WriteString(dashes)
	for _, r := range g.Rows {
		eachLine(r, line)
	}
	if g.Footer != nil {
		if len(g.Rows) > 0 {
			b.WriteString(dashes)
		}
		line(g.Footer)
	}
	if len(left) > 0 {
		fmt.Fprintln(b, leftOut(left))
	}
	return b.Flush() // with the first error of all
}

// eachLine calls use with each line of cells that may have several.
func eachLine(cells []string, use func([]string)) {
	height := tallest(cells)
	if height == 1 {
		use(cells)
		return
	}
	lines := make([][]string, height)
	for k := range lines {
		lines[k] = make([]string, len(cells))
	}
	for i, s := range cells {
		for k, part := range strings.Split(s, "\n") {
			lines[k][i] = part
		}
	}
	for _, l := range lines {
		use(l)
	}
}

// tallest returns how many lines the cell with the most has.
func tallest(cells []string) int {
	n := 1
	for _, s := range cells {
		n = max(n, 1+strings.Count(s, "\n"))
	}
	return n
}

// Markdown writes the grid as a GitHub table of at most limit bytes: where it is longer, rows are left out at the end,
// and a row says how many.
func (g *Grid) Markdown(w io.Writer, limit int) error {
	var head, foot strings.Builder
	titles, rules := make([]string, len(g.Columns)), make([]string, len(g.Columns))
	for i, c := range g.Columns {
		titles[i], rules[i] = c.Title, "---"
		if c.Right {
			rules[i] = "---:"
		}
	}
	fmt.Fprintf(&head, "| %s |\n| %s |\n", strings.Join(titles, " | "), strings.Join(rules, " | "))
	if g.Footer != nil {
		bold := make([]string, len(g.Footer))
		for i, s := range g.Footer {
			if s != "" {
				bold[i] = "**" + s + "**"
			}
		}
		fmt.Fprintf(&foot, "| %s |\n", strings.Join(bold, " | "))
	}
	lines := make([]string, len(g.Rows))
	length := head.Len() + foot.Len()
	for i, r := range g.Rows {
		cells := make([]string, len(r))
		for j, s := range r {
			switch {
			case s == "":
			case g.Columns[j].File:
				s = "`" + Show(s, nameWidth) + "`"
			case g.Columns[j].Code:
				s = "`" + s + "`"
			}
			cells[j] = s
		}
		lines[i] = "| " + strings.Join(cells, " | ") + " |\n"
		length += len(lines[i])
	}
	more := ""
	if length > limit {
		kept := len(lines)
		for ; kept > 0 && length > limit-64; kept-- {
			length -= len(lines[kept-1])
		}
		more = fmt.Sprintf("| | ... %s more rows |%s\n", Count(int64(len(lines)-kept)),
			strings.Repeat(" |", max(len(g.Columns)-2, 0)))
		lines = lines[:kept]
	}
	_, err := io.WriteString(w, head.String()+strings.Join(lines, "")+more+foot.String())
	return err
}

// CSV writes the grid as RFC 4180 has it, without totals. Text that a spreadsheet would
// take for a formula is quoted as Show quotes it.
func (g *Grid) CSV(w io.Writer) error {
	c := csv.NewWriter(w)
	record := make([]string, len(g.Columns))
	for i, col := range g.Columns {
		record[i] = col.Title
	}
	c.Write(record) // Flush and Error tell
	for _, r := range g.Rows {
		for i, s := range r {
			if g.Columns[i].File && s != "" {
				s = Show(s, 0)
			}
			record[i] = s
		}
		c.Write(record)
	}
	c.Flush()
	return c.Error()
}
