package report

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memestimate/memestimate/test/must"
)

// However narrow a terminal is, from 40 columns on, no line of a report or a diff is longer, and no number is cut.
func TestTextKeepsItsWidth(t *testing.T) {
	r := ran(fake(len(hostile), hostile), hostile)
	r.Activations.LossSaved = 1 << 30
	for i := range r.Layers {
		r.Layers[i].SavedBytes = int64(i) << 22
	}
	d := hostileDiff(2*len(hostile), 2)
	for width := 40; width <= 160; width += 3 {
		for name, write := range map[string]func(b *bytes.Buffer) error{
			"report": func(b *bytes.Buffer) error { return Text(b, r, width) },
			"diff":   func(b *bytes.Buffer) error { return DiffText(b, d, width, 0) },
		} {
			var b bytes.Buffer
			must.OK(t, write(&b))
			text := Fold(b.String(), width)
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: a line of %d characters in a terminal of %d: %q", name, n, width, line)
				}
			}
			if name == "report" && !strings.Contains(text, unitFor(r.Peak.Device).format(r.Peak.Device)) {
				t.Errorf("%s at %d: the device memory is nowhere whole:\n%s", name, width, text)
			}
		}
	}
}

// Where there is room nothing is changed, and what is left out for want of room is said.
func TestFit(t *testing.T) {
	r := modules()
	g := Layers(r, false)
	text := func(width int) string {
		var b strings.Builder
		must.OK(t, g.Text(&b, width))
		return b.String()
	}
	if text(0) != text(500) {
		t.Errorf("with room:\n%s\nwithout a limit:\n%s", text(500), text(0))
	}
	if strings.Contains(text(500), "no room") {
		t.Error("a column is left out with room for it")
	}
	narrow := text(50)
	if !strings.HasSuffix(narrow, "\n(no room for: #, operator, output, parameters)\n") ||
		strings.Contains(narrow, "[11, 3]") || !strings.Contains(narrow, "block2.part5.leaf11") {
		t.Errorf("%s", narrow)
	}
	if text(1) != text(40) {
		t.Error("there is a table for less than 40 columns")
	}
}
