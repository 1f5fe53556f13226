package pysource

import (
	"iter"
	"strings"
)

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

// maxSource is how much of a line is read, in bytes. Real lines have an eighth of it.
const maxSource = 1 << 10

// signs of more than one character, the longest first.
var signs = []string{"**=", "//=", ">>=", "<<=", "...", "->", ":=", "==", "!=", "<=", ">=", "+=", "-=", "*=", "/=",
	"%=", "@=", "&=", "|=", "^=", "**", "//", ">>", "<<"}

// tokens splits a line of Python up to its comment. ends is false where a string goes on after the line, or the line
// is too long; goes is true where a backslash says that the statement goes on.
func tokens(line string) (list []token, goes, ends bool) {
	if len(line) > maxSource {
		return nil, false, false
	}
	for i := 0; i < len(line); {
		c := line[i]
		switch {
		case c == ' ' || c == '\t' || c == '\f' || c == '\r':
			i++
		case c == '#':
			return list, false, true
		case c == '\\':
			return list, true, true
		case c == '"' || c == '\'':
			n := stringLength(line[i:])
			if n < 0 {
				return list, false, false
			}
			if k := len(list) - 1; k >= 0 && list[k].kind == nameToken && i > 0 && isWord(line[i-1]) { // a prefix: f"..."
				list = list[:k]
			}
			list = append(list, token{kind: stringToken})
			i += n
		case c >= '0' && c <= '9' || c == '.' && i+1 < len(line) && line[i+1] >= '0' && line[i+1] <= '9':
			n := i + 1
			for n < len(line) && (isWord(line[n]) || line[n] == '.' || (line[n] == '-' || line[n] == '+') &&
				(line[n-1] == 'e' || line[n-1] == 'E')) {
				n++
			}
			list = append(list, token{numberToken, line[i:n]})
			i = n
		case isWord(c):
			n := i + 1
			for n < len(line) && isWord(line[n]) {
				n++
			}
			list = append(list, token{nameToken, line[i:n]})
			i = n
		default:
			sign := line[i : i+1]
			for _, s := range signs {
				if strings.HasPrefix(line[i:], s) {
					sign = s
					break
				}
			}
			list = append(list, token{signToken, sign})
			i += len(sign)
		}
	}
	return list, false, true
}

// isWord reports whether a byte is of a name: letters of other alphabets too.
func isWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
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

// opens and closes say what a token does to the depth of brackets.
func (t token) opens() bool {
	return t.kind == signToken && (t.text == "(" || t.text == "[" || t.text == "{")
}

func (t token) closes() bool {
	return t.kind == signToken && (t.text == ")" || t.text == "]" || t.text == "}")
}

// outside yields the tokens that are in no bracket, and where they are.
func outside(list []token) iter.Seq2[int, token] {
	return func(yield func(int, token) bool) {
		depth := 0
		for i, t := range list {
			switch {
			case t.opens():
				depth++
			case t.closes():
				depth--
			case depth == 0 && !yield(i, t):
				return
			}
		}
	}
}

// splitTop splits tokens at a sign that is in no bracket.
func splitTop(list []token, sign string) (parts [][]token) {
	from := 0
	for i, t := range outside(list) {
		if t.is(sign) {
			parts = append(parts, list[from:i])
			from = i + 1
		}
	}
	return append(parts, list[from:])
}
