package recover

import (
	"slices"
	"strings"

	"github.com/memestimate/memestimate/estimate/program"
	"github.com/memestimate/memestimate/onnxload"
)

// readLines reads the lines of Python that an export keeps of the program it was traced from; nil where it has none. It
// knows assignment, rebinding, return, x += y, inplace=, no_grad, checkpoint and the calls of modules.
func readLines(stacks []onnxload.Frame) program.Lines {
	if len(stacks) == 0 {
		return nil
	}
	lines := make(program.Lines, len(stacks))
	retraced := retracedForAutocast(stacks)
	known := map[string]*program.Statement{}
	for i, f := range stacks {
		says := known[f.Source]
		if says == nil {
			says = parseLine(f.Source)
			known[f.Source] = says
		}
		at := &lines[i]
		*at = program.Frame{Up: f.Up, File: f.File, Func: f.Func, Source: f.Source, Says: says}
		at.Region = regionOf(lines, i, retraced)
		up := f.Up - 1 // less than i
		switch {
		case strings.HasPrefix(f.File, "<"): // a graph's own code: it was traced once more
		case up < 0:
			at.Forward, at.Level = int32(i)+1, 1
		case lines[up].Forward == 0:
		case f.Func != "forward": // no module was called
			at.Forward, at.Level = lines[up].Forward, lines[up].Level
		default:
			at.Forward, at.Level = int32(i)+1, lines[up].Level+1
		}
	}
	return lines
}

// parseLine reads a line of Python. What it does not understand has no names.
func parseLine(text string) *program.Statement {
	list, open := tokens(text)
	depth, low := 0, 0
	for _, t := range list {
		if t.opens() {
			depth++
		} else if t.closes() {
			depth--
			low = min(low, depth)
		}
	}
	var first, last *program.Statement
	for i, part := range splitTop(withoutHeader(list), ";") {
		if i > 0 && len(part) == 0 {
			continue
		}
		s := parseStatement(part)
		if first == nil {
			first = s
		} else {
			last.Next = s
		}
		last = s
	}
	last.Open, first.Copied = open || depth > low, copied(list)
	return first
}

// parseStatement reads one of the statements of a line.
func parseStatement(list []token) *program.Statement {
	s := new(program.Statement)
	if len(list) == 0 {
		return s
	}
	r := reader{s}
	first := list[0]
	switch i, parts := augmented(list), splitTop(list, "="); {
	case first.kind == nameToken && (first.text == "return" || first.text == "yield"):
		s.Kind = program.Returns
		r.expression(list[1:])
	case i > 0:
		s.Kind, s.Sign = program.Augment, strings.TrimSuffix(list[i].text, "=")
		r.target(list[:i])
		r.expression(list[i+1:])
		s.Reads = slices.Concat(s.Targets, s.Reads)
	case len(parts) > 1:
		s.Kind = program.Binding
		for _, p := range parts[:len(parts)-1] {
			r.target(splitTop(p, ":")[0]) // x: Tensor = ...
		}
		s.Spread = s.Spread && len(parts) == 2
		value := parts[len(parts)-1]
		if r.expression(value); len(value) == 1 && len(s.Reads) == 1 {
			s.Copies = s.Reads[0]
		}
	default:
		r.expression(list)
		if s.Held = appends(list); s.Held != "" && len(s.Reads) > 0 {
			s.Reads = s.Reads[1:]
		}
	}
	return s
}

// joins are words that a line begins with which goes on with an expression.
var joins = set("and or if else for in is not")

// headers are words that a line begins with which has a body behind it.
var headers = set("for while if elif else with try except finally def async")

// withoutHeader leaves out what a line begins with that has a body behind it: for x in xs: y = f(x).
func withoutHeader(list []token) []token {
	for len(list) > 0 && list[0].kind == nameToken && headers[list[0].text] {
		lambdas, depth, at := 0, 0, -1
		for i, t := range list {
			switch {
			case t.opens():
				depth++
			case t.closes():
				depth--
			case depth > 0:
			case t.kind == nameToken && t.text == "lambda":
				lambdas++
			case t.is(":") && lambdas > 0:
				lambdas--
			case t.is(":") && at < 0:
				at = i
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

// augmented returns where in a statement += or the like is, 0 for nowhere.
func augmented(list []token) int {
	depth := 0
	for i, t := range list {
		switch {
		case t.opens():
			depth++
		case t.closes():
			depth--
		case depth == 0 && t.kind == signToken && len(t.text) > 1 && strings.HasSuffix(t.text, "=") &&
			!slices.Contains([]string{"==", "!=", "<=", ">=", ":="}, t.text):
			return i
		}
	}
	return 0
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

// copied returns the methods whose result, as it is, contiguous is called of.
func copied(list []token) (names []string) {
	for i, t := range list {
		if t.is(")") && i+4 < len(list) && list[i+1].is(".") && list[i+2].text == "contiguous" && list[i+3].is("(") &&
			list[i+4].is(")") {
			if from := opening(list, i); from > 0 && list[from-1].kind == nameToken {
				names = append(names, list[from-1].text)
			}
		}
	}
	return names
}

// A reader fills in what a statement says.
type reader struct{ *program.Statement }

// target takes note of what is assigned to.
func (s reader) target(list []token) {
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
		name := ""
		switch {
		case len(p) == 1 && p[0].kind == nameToken:
			name = p[0].text
		case len(p) > 3 && p[0].is("(") && closing(p, 0) == len(p)-1: // a tuple within a tuple: its names, each
			s.target(p)
			continue
		case len(p) > 1 && p[0].kind == nameToken && p[0].text != "self" && p[1].is("["):
			s.Held = p[0].text
		case len(p) == 3 && p[0].text == "self" && p[1].is(".") && p[2].kind == nameToken:
			name = program.OwnAttribute + p[2].text
		}
		s.Targets = append(s.Targets, name)
	}
}

// notTensors are names that are no tensor of the program's, wherever they stand.
var notTensors = set("None True False self cls torch F nn np math functional einops if else in is not and or for " +
	"lambda await async print super")

// sizesOf are methods and functions whose further arguments are sizes and places, and functions of Python's that give
// no tensor.
var sizesOf = set("view reshape expand permute transpose flatten unflatten repeat unsqueeze squeeze chunk split " +
	"narrow size swapaxes movedim roll tile to type " +
	"range len int float bool isinstance enumerate zip min max sum getattr hasattr tuple list str print")

// builtins are functions of Python's, which call nothing.
var builtins = set("range len int float bool isinstance enumerate zip min max sum getattr hasattr tuple list dict " +
	"set type str print reversed sorted any all abs super slice map eval")

// aspects are attributes of tensors that are no tensors.
var aspects = set("shape size dtype device dim ndim numel is_cuda requires_grad training config")

// computes are the signs that compute something of tensors.
var computes = set("+ - * / @ ** // % & | ^ == != <= >= < >")

func set(words string) map[string]bool {
	m := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		m[w] = true
	}
	return m
}

// expression takes note of what an expression reads and calls.
func (s reader) expression(list []token) {
	local := map[string]bool{} // names of comprehensions
	for i, t := range list {
		if t.kind == nameToken && t.text == "for" {
			for _, u := range list[i+1:] {
				if u.kind == nameToken && u.text == "in" {
					break
				}
				local[u.text] = true
			}
		}
	}
	var tensors []bool // by open bracket: may what is in it be tensors
	within := func() bool { return len(tensors) == 0 || tensors[len(tensors)-1] }
	for i, t := range list {
		switch {
		case t.opens():
			s.call(list, i)
			inner := within()
			if i > 0 && t.is("[") && isValue(list[i-1]) || i > 0 && t.is("(") && sizesOf[list[i-1].text] {
				inner = false
			}
			tensors = append(tensors, inner)
		case t.closes():
			tensors = tensors[:max(len(tensors)-1, 0)]
		case t.kind == signToken:
			if computes[t.text] && i > 0 && isValue(list[i-1]) {
				s.Ops++
			}
		case t.kind != nameToken || i > 0 && list[i-1].is(".") || notTensors[t.text] || local[t.text]:
		case i+1 < len(list) && (list[i+1].is("(") || list[i+1].is("=") && len(tensors) > 0):
			s.Inplace = s.Inplace || list[i+1].is("=") && t.text == "inplace" && i+2 < len(list) && list[i+2].text == "True"
		case i+1 < len(list) && list[i+1].is(":="):
			s.Targets = append(s.Targets, t.text)
		case !within(), i+2 < len(list) && list[i+1].is(".") && aspects[list[i+2].text]:
		default:
			s.Reads = append(s.Reads, t.text)
		}
	}
}

// call takes note of the call, or of the part that is taken, whose bracket is token i.
func (s reader) call(list []token, i int) {
	if i == 0 || !isValue(list[i-1]) {
		return
	}
	if !list[i].is("(") {
		if list[i].is("[") {
			s.Ops++
		}
		return
	}
	k := i - 1
	if list[k].is("]") { // self.blocks[i](x), or b["conv"](x)
		if k = opening(list, k) - 1; k < 0 {
			return
		}
	} else if list[k].is(")") { // getattr(self, name)(x)
		s.Calls = append(s.Calls, "")
		return
	}
	last, from := list[k].text, k
	for from >= 2 && list[from-1].is(".") && list[from-2].kind == nameToken {
		from -= 2
	}
	switch own := from == 0 || !list[from-1].is("."); {
	case list[from].kind != nameToken:
	case from == k && own:
		if !builtins[last] {
			s.Calls = append(s.Calls, "")
		}
	case list[from].text == "self" && own:
		var path []string
		for j := from + 2; j <= k; j += 2 {
			path = append(path, list[j].text)
		}
		s.Calls = append(s.Calls, strings.Join(path, "."))
	default: // a method, or a function of a library
		s.Ops++
		s.Inplace = s.Inplace || strings.HasSuffix(last, "_") && !strings.HasSuffix(last, "__")
	}
}
