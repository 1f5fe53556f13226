package report

import (
	"strings"
	"unicode/utf8"
)

// A Look is what a terminal can show.
type Look struct {
	Width  int  // characters of a line; 0 is 80
	Colour bool // ANSI colours
	ASCII  bool // nothing but ASCII
}

// A screen gathers the lines of an answer.
type screen struct {
	Look
	lines []string
	dense bool // no empty lines
}

// labelWidth is how far the rows of an answer are indented by their labels.
const labelWidth = 8

func (s *screen) gap() {
	if !s.dense {
		s.line("")
	}
}

func (s *screen) line(text string) { s.lines = append(s.lines, text) }

// text writes a sentence after a label, folded at spaces.
func (s *screen) text(label, text string) { s.flow(label, strings.Fields(text), " ") }

// row writes items after a label with dots between them.
func (s *screen) row(label string, items []string) {
	dot := " · "
	if s.ASCII {
		dot = ", "
	}
	if len(items) > 0 {
		s.flow(label, items, dot)
	}
}

// flow writes items after a label, as many on a line as there is room for.
func (s *screen) flow(label string, items []string, between string) {
	indent := ""
	if label != "" {
		indent = strings.Repeat(" ", labelWidth)
	}
	line, width := s.paint("1", label)+indent[min(utf8.RuneCountInString(label), len(indent)):], len(indent)
	first := true
	for i, item := range items {
		n := visible(item)
		mark := 0 // what a line ends with when another one follows
		if i+1 < len(items) {
			mark = utf8.RuneCountInString(strings.TrimSpace(between)) + 1
		}
		if !first && width+utf8.RuneCountInString(between)+n+mark > s.Width {
			s.line(strings.TrimRight(line+strings.TrimRight(between, " "), " "))
			line, width, first = indent, len(indent), true
		}
		if !first {
			line += between
			width += utf8.RuneCountInString(between)
		}
		line += item
		width += n
		first = false
	}
	s.line(line)
}

// end keeps the last parts of a name in n characters, which tell layers apart. Half a number would tell of another one.
func (s *screen) end(name string, n int) string {
	if len(name) <= n {
		return name
	}
	end := name[len(name)-n+2:]
	if _, whole, ok := strings.Cut(end, "."); ok && whole != "" && name[len(name)-n+1] != '.' {
		end = whole
	}
	return ".." + end
}

// cut keeps the first n characters of a line.
func (s *screen) cut(line string, n int) string {
	at := 0
	for i := range line {
		if visible(line[:i]) > n {
			return line[:at]
		}
		at = i
	}
	return line
}

// visible is how many characters of a text show: escape sequences do not.
func visible(text string) int {
	n, inside := 0, false
	for _, r := range text {
		switch {
		case r == '\x1b':
			inside = true
		case inside:
			inside = r != 'm'
		default:
			n++
		}
	}
	return n
}

func (s *screen) bold(text string) string { return s.paint("1", text) }

// paint colours a text where the terminal shows colours.
func (s *screen) paint(colour, text string) string {
	if !s.Colour || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
