package recover

import "strings"

// A token is a word or a sign of a line of Python.
type token struct {
	kind tokenKind
	text string // of strings, nothing
}

type tokenKind uint8

const (
	nameToken tokenKind = iota
	numberToken
	stringToken
	signToken
)

func (t token) is(sign string) bool { return t.kind == signToken && t.text == sign }
func (t token) opens() bool         { return t.is("(") || t.is("[") || t.is("{") }
func (t token) closes() bool        { return t.is(")") || t.is("]") || t.is("}") }

// opening returns where the bracket opens that token i closes, -1 for nowhere; closing the reverse.
func opening(list []token, i int) int {
	depth := 0
	for ; i >= 0; i-- {
		if list[i].closes() {
			depth++
		} else if list[i].opens() {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

func closing(list []token, i int) int {
	depth := 0
	for ; i < len(list); i++ {
		if list[i].opens() {
			depth++
		} else if list[i].closes() {
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// splitTop splits tokens at a sign that is in no bracket.
func splitTop(list []token, sign string) (parts [][]token) {
	from, depth := 0, 0
	for i, t := range list {
		switch {
		case t.opens():
			depth++
		case t.closes():
			depth--
		case depth == 0 && t.is(sign):
			parts = append(parts, list[from:i])
			from = i + 1
		}
	}
	return append(parts, list[from:])
}

// maxSource is how much of a line is read, in bytes. Real lines have an eighth of it.
const maxSource = 1 << 10

// signs of more than one character, the longest first.
var signs = []string{"**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=",
	"%=", "@=", "&=", "|=", "^=", "**", "//", ">>", "<<"}

// tokens splits a line of Python up to its comment. open is true where a string or, by a backslash, the statement goes
// on after the line, or the line is too long.
func tokens(line string) (list []token, open bool) {
	if len(line) > maxSource {
		return nil, true
	}
	for i := 0; i < len(line); {
		c, n := line[i], i+1
		switch {
		case c == ' ' || c == '\t' || c == '\f' || c == '\r':
		case c == '#':
			return list, false
		case c == '\\':
			return list, true
		case c == '"' || c == '\'':
			length := stringLength(line[i:])
			if length < 0 {
				return list, true
			}
			if k := len(list) - 1; k >= 0 && list[k].kind == nameToken && isWord(line[i-1]) { // a prefix: f"..."
				list = list[:k]
			}
			list, n = append(list, token{kind: stringToken}), i+length
		case isDigit(c) || c == '.' && n < len(line) && isDigit(line[n]):
			for n < len(line) && (isWord(line[n]) || line[n] == '.' || (line[n] == '-' || line[n] == '+') &&
				(line[n-1] == 'e' || line[n-1] == 'E')) {
				n++
			}
			list = append(list, token{numberToken, line[i:n]})
		case isWord(c):
			for n < len(line) && isWord(line[n]) {
				n++
			}
			list = append(list, token{nameToken, line[i:n]})
		default:
			sign := line[i:n]
			for _, s := range signs {
				if strings.HasPrefix(line[i:], s) {
					sign = s
					break
				}
			}
			list, n = append(list, token{signToken, sign}), i+len(sign)
		}
		i = n
	}
	return list, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isWord reports whether a byte is of a name: letters of other alphabets too.
func isWord(c byte) bool {
	return c == '_' || isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// stringLength returns how long the string literal is that s begins with, -1 where it does not end.
func stringLength(s string) int {
	quote := s[:1]
	if strings.HasPrefix(s, strings.Repeat(quote, 3)) {
		quote = s[:3]
	}
	for i := len(quote); i < len(s); i++ {
		if s[i] == '\\' {
			i++
		} else if strings.HasPrefix(s[i:], quote) {
			return i + len(quote)
		}
	}
	return -1
}

// isValue reports whether an expression may end with a token, so that a bracket behind it calls it or takes a part of
// it.
func isValue(t token) bool {
	return t.closes() || t.kind != signToken && !(t.kind == nameToken && (joins[t.text] || t.text == "return"))
}
