package report

import (
	"bufio"
	"encoding/csv"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
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

// manyRows is where go-pretty's care for colours, wrapping and wide characters, of which
// these tables have none, begins to be felt: it takes 4 us a row.
const manyRows = 5000

// Text writes the grid with aligned columns. With a width above 0, lines stay within it, as fit makes them; where
// columns had to go a line says which.
func (g *Grid) Text(w io.Writer, width int) error {
	shown, left := g.fit(width)
	draw := shown.textPretty
	if len(shown.Rows) > manyRows && !shown.severalLines() {
		draw = shown.textDirectly
	}
	if err := draw(w); err != nil || len(left) == 0 {
		return err
	}
	_, err := fmt.Fprintln(w, leftOut(left))
	return err
}

// textPretty has go-pretty lay the rows out.
func (g *Grid) textPretty(w io.Writer) error {
	t := table.NewWriter()
	t.SetStyle(plainStyle)
	configs := make([]table.ColumnConfig, len(g.Columns))
	header := make(table.Row, len(g.Columns))
	for i, c := range g.Columns {
		header[i] = c.Title
		configs[i] = table.ColumnConfig{Number: i + 1, VAlignHeader: text.VAlignBottom}
		if c.Right {
			configs[i].Align, configs[i].AlignHeader, configs[i].AlignFooter = text.AlignRight, text.AlignRight, text.AlignRight
		}
	}
	t.SetColumnConfigs(configs)
	t.AppendHeader(header)
	for _, r := range g.Rows {
		t.AppendRow(prettyRow(r))
	}
	if g.Footer != nil {
		t.AppendFooter(prettyRow(g.Footer))
	}
	for line := range strings.Lines(t.Render()) {
		if _, err := io.WriteString(w, strings.TrimRight(line, " \n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

func prettyRow(cells []string) table.Row {
	out := make(table.Row, len(cells))
	for i, s := range cells {
		out[i] = s
	}
	return out
}

// textDirectly lays the rows out as textPretty does. All cells are ASCII.
func (g *Grid) textDirectly(w io.Writer) error {
	header := make([]string, len(g.Columns))
	widths := make([]int, len(g.Columns))
	for i, c := range g.Columns {
		header[i] = c.Title
	}
	measure := func(cells []string) {
		for i, s := range cells {
			widths[i] = max(widths[i], len(s))
		}
	}
	for _, r := range g.Rows {
		measure(r)
	}
	measure(header)
	measure(g.Footer)
	rule := 0
	for _, n := range widths {
		rule += n + 2
	}
	b := bufio.NewWriterSize(w, 1<<16)
	spaces := strings.Repeat(" ", rule)
	line := func(cells []string) {
		pending := 0 // spaces that are written only before something else
		for i, s := range cells {
			pad := widths[i] - len(s)
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
	line(header)
	dashes := strings.Repeat("-", rule) + "\n"
	b.WriteString(dashes)
	for _, r := range g.Rows {
		line(r)
	}
	if g.Footer != nil {
		b.WriteString(dashes)
		line(g.Footer)
	}
	return b.Flush() // with the first error of all
}

// plainStyle has neither borders nor capitals; it is ASCII, so it needs no locale.
var plainStyle = table.Style{
	Name: "plain",
	Box: table.BoxStyle{MiddleHorizontal: "-", PaddingRight: "  ", MiddleVertical: "", MiddleSeparator: "",
		TopSeparator: "", BottomSeparator: ""},
	Format:  table.FormatOptions{Header: text.FormatDefault, Footer: text.FormatDefault, Row: text.FormatDefault},
	Options: table.Options{SeparateHeader: true, SeparateFooter: true},
}

// Markdown writes the grid as a GitHub table of at most limit bytes: where it is longer, rows are left out at the end,
// and a row says how many. go-pretty's tables in Markdown know no limit, and escape only what ends a cell.
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
		for room := limit - (len(more) + 64); kept > 0 && length > room; kept-- {
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
