package pysource

import (
	"slices"
	"strings"
)

// A Line is what one physical line of Python says. Of a statement of several lines a stack has one: that of the
// expression which was being computed.
type Line struct {
	Statements []Statement
	Open       bool // its last statement goes on after it
	// methods and functions whose result it detaches: amax of x.amax(-1).detach()
	Detached []string
	// likewise those whose result it copies: permute of x.permute(0, 2, 1).contiguous()
	Copied []string
	Parted bool // it calls what takes a tensor apart: x.chunk(2, dim=1), torch.split(x, n)
}

// A Statement is what a part of a line does with the values that it computes.
type Statement struct {
	Kind StatementKind
	// names that are bound, by place: "a", "b" of a, b = f(x), and "self.c" of an attribute of the module's own; "" for
	// what is no name
	Targets []string
	Spread  bool     // targets are parts of one value; else all are bound to the value: x = y = f(x)
	Held    string   // a container that the value goes into: xs of xs.append(f(x)), d of d[k] = f(x)
	Into    []string // by target, the container whose element it is: "hs", "cs" of hs[k], cs[k] = f(x)
	Renews  []string // those of which the statement reads the same element: hs of hs[k] = f(hs[k])
	Attr    bool     // it goes into an attribute of another object: out.logits = f(x)
	Op      string   // augmented assignments: "+"

	Reads   []string // names whose values it may compute with, in the order of the text
	Indexed []string // those of which it takes one part: xs of xs[i]
	Sliced  []string // those of which it takes a part by places, and attributes of the module: "self.c" of self.c[:, a:b]
	Sites   []Site   // calls of modules, or of functions of the program
	Ops     int      // signs and calls of torch that compute something
	Listed  bool     // a comprehension
	Sums    bool     // Python's sum of a list that it makes: sum([f(x) for x in xs])
	Inplace bool     // a call has inplace=True, or a function or method is called that ends with "_"
	Flag    bool     // a call has inplace= something else
	Copies  string   // y of x = y
	Items   bool     // what it binds is a list, a tuple or a dictionary as written: [x, y]
	Method  bool     // it is the call of a method of the module and no more: self.encode(x)
	Alone   bool     // what it returns beside one value is None: return x, None
}

// Self is what targets begin with that are attributes of the module: they outlive its forward.
const Self = "self."

type StatementKind uint8

const (
	Bare    StatementKind = iota // an expression alone; or a part of a statement that began on an earlier line
	Part                         // surely that: it begins with a sign, or closes more brackets than it opens
	Binding                      // x = , x: T =
	Augment                      // x +=
	Returns                      // return
)

// A Site is a call: of self.conv1 or self.blocks[i] by its path "conv1", "blocks", or of something that has a
// local name, "".
type Site struct{ Path string }

// parseLine reads a line of Python. What it does not understand has no names.
func parseLine(text string) *Line {
	list, goes, ends := tokens(text)
	line := &Line{Open: goes || !ends}
	depth, low := 0, 0
	for _, t := range list {
		if t.opens() {
			depth++
		} else if t.closes() {
			depth--
			low = min(low, depth)
		}
	}
	line.Open = line.Open || depth > low
	line.Detached, line.Copied = calledOf(list, "detach"), calledOf(list, "contiguous")
	line.Parted = parted(list)
	list = withoutHeader(list)
	for _, p := range splitTop(list, ";") {
		if len(p) > 0 {
			line.Statements = append(line.Statements, parseStatement(p))
		}
	}
	if low < 0 && len(line.Statements) > 0 && line.Statements[0].Kind == Bare {
		line.Statements[0].Kind = Part
	}
	return line
}

// calledOf returns the names of what is called whose result, as it is, a method is called of, without arguments.
func calledOf(list []token, method string) (names []string) {
	var opened []int // where brackets that are open began
	for i, t := range list {
		switch {
		case t.opens():
			opened = append(opened, i)
		case t.closes() && len(opened) > 0:
			from := opened[len(opened)-1]
			opened = opened[:len(opened)-1]
			if from > 0 && i+4 < len(list) && t.is(")") && list[from-1].kind == nameToken && list[i+1].is(".") &&
				list[i+2].text == method && list[i+3].is("(") && list[i+4].is(")") {
				names = append(names, list[from-1].text)
			}
		}
	}
	return names
}

// parts are the methods and functions that take a tensor apart.
var parts = set("chunk split unbind tensor_split split_with_sizes unsafe_chunk unsafe_split hsplit vsplit dsplit")

// parted reports whether one of them is called.
func parted(list []token) bool {
	for i, t := range list {
		if t.kind == nameToken && parts[t.text] && i+1 < len(list) && list[i+1].is("(") {
			return true
		}
	}
	return false
}

// withoutHeader leaves out what a line begins with that has a body behind it: for x in xs: y = f(x).
func withoutHeader(list []token) []token {
	for len(list) > 0 && list[0].kind == nameToken {
		switch list[0].text {
		case "for", "while", "if", "elif", "else", "with", "try", "except", "finally", "def", "async":
		default:
			return list
		}
		lambda, at := 0, -1
		for i, t := range outside(list) {
			switch {
			case t.kind == nameToken && t.text == "lambda":
				lambda++
			case t.is(":") && lambda > 0:
				lambda--
			case t.is(":"):
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

func parseStatement(list []token) (s Statement) {
	if t := list[0]; t.kind == nameToken && (t.text == "return" || t.text == "yield") {
		s.Kind = Returns
		s.Alone = returnsAlone(list[1:])
		s.expression(list[1:])
		return s
	}
	first := list[0]
	if first.kind == signToken && !first.opens() && first.text != "-" && first.text != "*" && first.text != "~" &&
		first.text != "..." ||
		first.kind == nameToken && slices.Contains([]string{"and", "or", "if", "else", "for", "in", "is", "not"},
			first.text) {
		s.Kind = Part
		s.expression(list)
		return s
	}
	if i := augmented(list); i > 0 {
		s.Kind, s.Op = Augment, strings.TrimSuffix(list[i].text, "=")
		s.target(list[:i])
		s.expression(list[i+1:])
		s.Reads, s.Copies = slices.Concat(s.Targets, s.Reads), ""
		return s
	}
	if parts := splitTop(list, "="); len(parts) > 1 {
		s.Kind = Binding
		for _, p := range parts[:len(parts)-1] {
			if a := splitTop(p, ":"); len(a) > 1 { // x: Tensor = ...
				p = a[0]
			}
			s.target(p)
		}
		s.Spread = s.Spread && len(parts) == 2
		s.expression(parts[len(parts)-1])
		if s.Held != "" && len(parts) == 2 {
			s.renews(parts[0], parts[1])
		}
		return s
	}
	s.expression(list)
	s.Method = len(list) > 4 && list[0].text == "self" && list[1].is(".") && list[3].is("(") &&
		closing(list, 3) == len(list)-1
	if s.Held = appends(list); s.Held != "" && len(s.Reads) > 0 {
		s.Reads = s.Reads[1:]
	}
	return s
}

// returnsAlone reports whether a function returns one value and None: x, None or (x, None).
func returnsAlone(list []token) bool {
	if n := len(list); n > 1 && list[0].is("(") && closing(list, 0) == n-1 {
		list = list[1 : n-1]
	}
	parts := splitTop(list, ",")
	return len(parts) == 2 && len(parts[1]) == 1 && parts[1][0].kind == nameToken && parts[1][0].text == "None"
}

// augmented returns where in a statement += or the like is, 0 for nowhere.
func augmented(list []token) int {
	for i, t := range outside(list) {
		if t.kind == signToken && len(t.text) > 1 && strings.HasSuffix(t.text, "=") &&
			!slices.Contains([]string{"==", "!=", "<=", ">=", ":="}, t.text) {
			return i
		}
	}
	return 0
}

// target takes note of what is assigned to.
func (s *Statement) target(list []token) {
	if n := len(list); n > 1 && (list[0].is("(") || list[0].is("[")) && closing(list, 0) == n-1 {
		list = list[1 : n-1]
	}
	parts := splitTop(list, ",")
	if n := len(parts); n > 1 && len(parts[n-1]) == 0 {
		parts = parts[:n-1]
		s.Spread = true
	}
	s.Spread = s.Spread || len(parts) > 1
	for _, p := range parts {
		if len(p) > 0 && p[0].is("*") {
			p = p[1:]
		}
		name, into := "", ""
		switch {
		case len(p) == 1 && p[0].kind == nameToken:
			name = p[0].text
		case len(p) > 3 && p[0].is("(") && closing(p, 0) == len(p)-1: // a tuple within a tuple: its names, each
			s.target(p)
			continue
		case len(p) > 1 && p[0].kind == nameToken && p[0].text != "self" && p[1].is("["):
			s.Held, into = p[0].text, p[0].text
		case len(p) == 3 && p[0].text == "self" && p[1].is(".") && p[2].kind == nameToken:
			name = Self + p[2].text
		case len(p) > 1:
			s.Attr = true
		}
		s.Targets, s.Into = append(s.Targets, name), append(s.Into, into)
	}
}

// renews takes note of the elements that are assigned to which the statement reads too.
func (s *Statement) renews(targets, value []token) {
	for _, p := range splitTop(targets, ",") {
		if len(p) < 4 || !slices.Contains(s.Into, p[0].text) || !p[1].is("[") {
			continue
		}
		for i := range len(value) - len(p) + 1 {
			if slices.EqualFunc(p, value[i:i+len(p)], func(a, b token) bool { return a.text == b.text }) {
				s.Renews = append(s.Renews, p[0].text)
				break
			}
		}
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

// Site returns the first call of a module that a line has from statement cur on and that was not made yet; -1 for none.
func (line *Line) Site(cur int, used []bool, name string) (s, i int) {
	for _, exact := range []bool{true, false} {
		for s := cur; s < len(line.Statements); s++ {
			for i, at := range line.Statements[s].Sites {
				if (s > cur || !used[i]) && at.Calls(name, exact) {
					return s, i
				}
			}
		}
		if exact && line.exact(name) {
			break
		}
	}
	return 0, -1
}

// exact reports whether a line has a module's path.
func (line *Line) exact(name string) bool {
	for s := range line.Statements {
		for _, at := range line.Statements[s].Sites {
			if at.Calls(name, true) {
				return true
			}
		}
	}
	return false
}

// Names returns the first statement of a line that may call a module, -1 for none.
func (line *Line) Names(name string) int {
	for _, exact := range []bool{true, false} {
		for s := range line.Statements {
			for _, at := range line.Statements[s].Sites {
				if at.Calls(name, exact) {
					return s
				}
			}
		}
	}
	return -1
}

// Calls reports whether a call may be that of a module by its path: self.conv, a member of self.blocks; not exactly,
// one that has a local name.
func (at Site) Calls(name string, exact bool) bool {
	if !exact {
		return at.Path == ""
	}
	return at.Path != "" && (name == at.Path || strings.HasPrefix(name, at.Path) && name[len(at.Path)] == '.')
}
