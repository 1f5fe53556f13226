package report

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
)

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
