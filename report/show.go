// Package report writes estimates as text, Markdown, CSV and JSON. It computes nothing that the Report does not hold.
// What comes from a file, names above all, passes Show or Clean before it is written, so that no file makes a terminal
// or a page do anything.
package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// nameWidth is how many bytes of a name the tables for people show.
const nameWidth = 60

// Show returns a name from a file in a form that is safe in a terminal, a log, and a table cell
// of text, Markdown or CSV: ASCII without control characters, pipes, backticks or commas.
// Names of plain characters pass as they are; all others are quoted as Go strings
// are, and strconv.Unquote gives the name back. A name that takes more than limit bytes is
// cut, and then ends in three dots; limit 0 means no limit.
func Show(name string, limit int) string {
	if limit <= 0 || len(name) <= limit {
		if isPlain(name) {
			return name
		}
		if q := quote(name); limit <= 0 || len(q) <= limit {
			return q
		}
	} else if start := name[:max(limit-3, 0)]; isPlain(start) {
		return start + "..."
	}
	for k := min(len(name), limit); k > 0; k-- {
		if q := quote(name[:k]); len(q)+3 <= limit {
			return q + "..."
		}
	}
	return `""...`
}

// Short is Show for a narrow place: a long name loses its middle, since the end of a path or of a module's name tells
// it from others. limit must be 8 at least.
func Short(name string, limit int) string {
	if len(name) <= limit || !isPlain(name) {
		return Show(name, limit)
	}
	head := (limit - 3) / 3
	return name[:head] + "..." + name[len(name)-(limit-3-head):]
}

// Spans shows a name as code in Markdown, in so many lines of width characters at most, broken where its parts end: a
// code span alone does not break, and names that are cut to fit a column often differ in what was cut. A name that
// needs more lines loses its middle.
func Spans(name string, width, lines int) string {
	s := Short(name, width*lines)
	var b strings.Builder
	for ; len(s) > width; lines-- {
		k := strings.LastIndexAny(s[:width], "_./:-") + 1
		if k < width/2 || len(s)-k > width*(lines-1) { // it would need a line more
			k = width
		}
		b.WriteString("`" + s[:k] + "`<br>")
		s = s[k:]
	}
	return b.String() + "`" + s + "`"
}

// blank are the letters that Unicode has for printable and nobody sees: fillers of Hangul, and Braille without a dot.
const blank = "\u115f\u1160\u3164\uffa0\u2800"

// Clean makes a sentence safe to look at, in a terminal too: what is not printable, or turns the
// direction of writing, is written as Go would escape it. Names from files in it are quoted as a rule;
// this is for those inside of others' words, such as the symbols of a shape.
func Clean(s string) string {
	odd := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) || strings.ContainsRune(blank, r) }
	if strings.IndexFunc(s, odd) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if odd(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}

// isPlain reports whether a name may be shown unquoted. A sign in front could make a
// spreadsheet take it for a formula, and an empty name would vanish.
func isPlain(name string) bool {
	if name == "" || name[0] == '-' || name[0] == '+' {
		return false
	}
	for i := range len(name) {
		c := name[i]
		switch {
		// <module> is a place in Python
		case '0' <= c && c <= '9', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', strings.IndexByte("_./:-+<>", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// unsafe are the printable characters that a table cell or a log takes for its own.
var unsafe = strings.NewReplacer(
	"|", `\x7c`, // a Markdown table's column
	"`", `\x60`, // the end of a code span
	"##[", `\x23\x23[`, // a command to a CI runner
)

func quote(name string) string { return unsafe.Replace(strconv.QuoteToASCII(name)) }

// MaxMessage is how many bytes of a message are told. A file may hold names and equations of megabytes.
const MaxMessage = 2000

// OneLine keeps a message of several lines on one, and what a file put into it from acting in a terminal. It leaves
// out the middle of one that is too long.
func OneLine(s string) string {
	const end = 400 // what is wrong, and what was wanted, often come last
	if len(s) > 2*MaxMessage {
		s = s[:MaxMessage] + s[len(s)-MaxMessage:] // what is certain to go need not be cleaned
	}
	s = Clean(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' || r == '\r' }), "; "))
	if len(s) <= MaxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:MaxMessage-end], "") + " ... " + strings.ToValidUTF8(s[len(s)-end:], "")
}

// QuoteArg shows an argument as a shell would need it typed, so that a hint can be copied whatever is in a name: a
// backtick within double quotes would be a command.
func QuoteArg(s string) string {
	plain := s != ""
	for i := range len(s) {
		c := s[i]
		plain = plain && (c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' ||
			strings.IndexByte("_./:-+=@,", c) >= 0)
	}
	if plain {
		return s
	}
	if q := strconv.Quote(s); !strings.ContainsAny(s, "$`!\\") && !strings.Contains(q, `\x`) &&
		!strings.ContainsFunc(s, unicode.IsControl) && !strings.Contains(q, `\u`) && !strings.Contains(q, `\U`) {
		return q
	}
	var b strings.Builder // $'...' of bash, zsh and ksh, in bytes
	b.WriteString("$'")
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\x%02x`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
