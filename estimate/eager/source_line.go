package eager

import (
	"slices"
	"strings"
)

// A sourceLine is what one physical line of Python says. Of a statement of several lines a stack has one: that of the
// expression which was being computed.
type sourceLine struct {
	statements []statement
	open       bool // its last statement goes on after it
}

// A statement is what a part of a line does with the values that it computes.
type statement struct {
	kind    statementKind
	targets []string // names that are bound, by place: "a", "b" of a, b = f(x); "" for what is no name
	spread  bool     // targets are parts of one value; else all are bound to the value: x = y = f(x)
	held    string   // a container that the value goes into: xs of xs.append(f(x)), d of d[k] = f(x)
	attr    bool     // it goes into an attribute of an object: self.cache = f(x)
	op      string   // augmented assignments: "+"

	reads   []string // names whose values it may compute with, in the order of the text
	sites   []site   // calls of modules, or of functions of the program
	ops     int      // signs and calls of torch that compute something
	listed  bool     // a comprehension
	inplace bool     // a call has inplace=True, or a function or method is called that ends with "_"
	flag    bool     // a call has inplace= something else
	copies  string   // y of x = y
	items   bool     // what it binds is a list, a tuple or a dictionary as written: [x, y]
}

type statementKind uint8

const (
	bare    statementKind = iota // an expression alone; or a part of a statement that began on an earlier line
	part                         // surely that: it begins with a sign, or closes more brackets than it opens
	binding                      // x = , x: T =
	augment                      // x +=
	returns                      // return
)

// A site is a call: of self.conv1 or self.blocks[i] by its path "conv1", "blocks", or of something that has a
// local name, "".
type site struct{ path string }

// parseLine reads a line of Python. What it does not understand has no names.
func parseLine(text string) *sourceLine {
	list, goes, ends := tokens(text)
	line := &sourceLine{open: goes || !ends}
	depth, low := 0, 0
	for _, t := range list {
		if t.opens() {
			depth++
		} else if t.closes() {
			depth--
			low = min(low, depth)
		}
	}
	line.open = line.open || depth > low
	list = withoutHeader(list)
	for _, p := range splitTop(list, ";") {
		if len(p) > 0 {
			line.statements = append(line.statements, parseStatement(p))
		}
	}
	if low < 0 && len(line.statements) > 0 && line.statements[0].kind == bare {
		line.statements[0].kind = part
	}
	return line
}

// withoutHeader leaves out what a line begins with that has a body behind it: for x in xs: y = f(x).
func withoutHeader(list []token) []token {
	for len(list) > 0 && list[0].kind == nameToken {
		switch list[0].text {
		case "for", "while", "if", "elif", "else", "with", "try", "except", "finally", "def", "async":
		default:
			return list
		}
		depth, lambda, at := 0, 0, -1
		for i, t := range list {
			switch {
			case t.opens():
				depth++
			case t.closes():
				depth--
			case t.kind == nameToken && t.text == "lambda":
				lambda++
			case depth == 0 && t.is(":") && lambda > 0:
				lambda--
			case depth == 0 && t.is(":"):
				at = i
			}
			if at >= 0 {
				break
			}
		}
		if at < 0 {
			return list // else of an expression, or a header that goes on
		}
		if at == len(list)-1 {
			return list[1:at] // nothing behind it: what it computes itself
		}
		list = list[at+1:]
	}
	return list
}

func parseStatement(list []token) (s statement) {
	if t := list[0]; t.kind == nameToken && (t.text == "return" || t.text == "yield") {
		s.kind = returns
		s.expression(list[1:])
		return s
	}
	first := list[0]
	if first.kind == signToken && !first.opens() && first.text != "-" && first.text != "*" && first.text != "~" && first.text != "..." ||
		first.kind == nameToken && slices.Contains([]string{"and", "or", "if", "else", "for", "in", "is", "not"}, first.text) {
		s.kind = part
		s.expression(list)
		return s
	}
	if i := augmented(list); i > 0 {
		s.kind, s.op = augment, strings.TrimSuffix(list[i].text, "=")
		s.target(list[:i])
		s.expression(list[i+1:])
		s.reads, s.copies = slices.Concat(s.targets, s.reads), ""
		return s
	}
	if parts := splitTop(list, "="); len(parts) > 1 {
		s.kind = binding
		for _, p := range parts[:len(parts)-1] {
			if a := splitTop(p, ":"); len(a) > 1 { // x: Tensor = ...
				p = a[0]
			}
			s.target(p)
		}
		s.spread = s.spread && len(parts) == 2
		s.expression(parts[len(parts)-1])
		return s
	}
	s.expression(list)
	if s.held = appends(list); s.held != "" && len(s.reads) > 0 {
		s.reads = s.reads[1:]
	}
	return s
}

// augmented returns where in a statement += or the like is, 0 for nowhere.
func augmented(list []token) int {
	depth := 0
	for i, t := range list {
		switch {
		case t.opens():
			depth++
		case t.closes():
			depth--
		case depth == 0 && t.kind == signToken && len(t.text) > 1 && strings.HasSuffix(t.text, "=") && !slices.Contains([]string{"==", "!=", "<=", ">=", ":="}, t.text):
			return i
		}
	}
	return 0
}

// target takes note of what is assigned to.
func (s *statement) target(list []token) {
	if n := len(list); n > 1 && (list[0].is("(") || list[0].is("[")) && closing(list, 0) == n-1 {
		list = list[1 : n-1]
	}
	parts := splitTop(list, ",")
	if n := len(parts); n > 1 && len(parts[n-1]) == 0 {
		parts = parts[:n-1]
		s.spread = true
	}
	s.spread = s.spread || len(parts) > 1
	for _, p := range parts {
		if len(p) > 0 && p[0].is("*") {
			p = p[1:]
		}
		name := ""
		switch {
		case len(p) == 1 && p[0].kind == nameToken:
			name = p[0].text
		case len(p) > 3 && p[0].is("(") && closing(p, 0) == len(p)-1: // a tuple within a tuple: its names, each
			s.target(p)
			continue
		case len(p) > 1 && p[0].kind == nameToken && p[0].text != "self" && p[1].is("["):
			s.held = p[0].text
		case len(p) > 1:
			s.attr = true
		}
		s.targets = append(s.targets, name)
	}
}

// appends returns the list that a statement appends to: xs of xs.append(x).
func appends(list []token) string {
	if len(list) < 4 || list[0].kind != nameToken || !list[1].is(".") || !list[3].is("(") {
		return ""
	}
	switch list[2].text {
	case "append", "insert", "extend", "add", "appendleft":
		return list[0].text
	}
	return ""
}
