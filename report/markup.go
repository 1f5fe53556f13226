package report

import (
	"bytes"
	"fmt"
	"html"
)

// A Markup is HTML in the making: what the program writes itself stays as it is, everything else is escaped. It knows
// text and quoted attributes alone, where package html/template knows every place; but a template calls methods by
// their names, and with it the linker keeps every exported method of the program, an eighth of what a browser loads.
type Markup struct{ bytes.Buffer }

// Add writes markup with the values, escaped, in the places of its %s.
func (m *Markup) Add(markup string, values ...string) {
	escaped := make([]any, len(values))
	for i, v := range values {
		escaped[i] = html.EscapeString(v)
	}
	fmt.Fprintf(m, markup, escaped...)
}

// AddIf writes markup where a condition holds.
func (m *Markup) AddIf(holds bool, markup string, values ...string) {
	if holds {
		m.Add(markup, values...)
	}
}

// Cell writes a cell of a table: "th" or "td", with more attributes of the program's own, or none.
func (m *Markup) Cell(tag, attributes string, right bool, text string) {
	m.WriteString("<" + tag + attributes)
	m.AddIf(right, ` class="n"`)
	m.Add(">%s</"+tag+">", text)
}
