package pysource

import (
	"slices"
	"strings"
)

// notTensors are names that are no tensor of the program's, wherever they stand.
var notTensors = set("None True False self cls torch F nn np math functional einops if else in is not and or for " +
	"lambda await async print super")

// sizesOf are methods and functions whose further arguments are sizes and places, and functions of Python's that give
// no tensor.
var sizesOf = set("view reshape expand permute transpose flatten unflatten repeat unsqueeze squeeze chunk split " +
	"narrow size swapaxes movedim roll tile to type " +
	"range len int float bool isinstance enumerate zip min max sum getattr hasattr tuple list type str print")

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
func (s *Statement) expression(list []token) {
	if len(list) == 1 && list[0].kind == nameToken && !notTensors[list[0].text] {
		s.Copies = list[0].text
	}
	if n := len(list); n > 1 && (list[0].is("[") || list[0].is("(") || list[0].is("{")) && list[n-1].closes() &&
		closing(list, 0) == n-1 {
		s.Items = !list[0].is("(") || len(splitTop(list[1:n-1], ",")) > 1
	}
	local := map[string]bool{} // names of comprehensions
	for i, t := range list {
		if t.kind == nameToken && t.text == "for" {
			s.Listed = true
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
			s.slice(list, i)
			s.Sums = s.Sums || t.is("[") && i > 1 && list[i-1].is("(") && list[i-2].text == "sum" &&
				(i == 2 || !list[i-3].is("."))
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
			if list[i+1].is("=") && t.text == "inplace" && i+2 < len(list) {
				s.Inplace = s.Inplace || list[i+2].text == "True"
				s.Flag = s.Flag || list[i+2].text != "True" && list[i+2].text != "False"
			}
		case i+1 < len(list) && list[i+1].is(":="):
			s.Targets = append(s.Targets, t.text)
		case !within(), i+2 < len(list) && list[i+1].is(".") && aspects[list[i+2].text]:
		default:
			s.Reads = append(s.Reads, t.text)
			if i+1 < len(list) && list[i+1].is("[") && onePlace(list[i+1:]) {
				s.Indexed = append(s.Indexed, t.text)
			}
		}
	}
}

// slice takes note of a name, or an attribute of the module, of which a part is taken in the bracket that is token i:
// no list of modules whose element is called, self.blocks[i](x), and no element of a list, self.scales[i].
func (s *Statement) slice(list []token, i int) {
	if i == 0 || !list[i].is("[") || list[i-1].kind != nameToken || onePlace(list[i:]) {
		return
	}
	name, before := list[i-1].text, i-2
	if i > 2 && list[i-2].is(".") && list[i-3].text == "self" {
		name, before = Self+name, i-4
	}
	if before >= 0 && list[before].is(".") {
		return
	}
	if end := closing(list, i); end > 0 && (end+1 == len(list) || !list[end+1].is("(")) &&
		!slices.Contains(s.Sliced, name) {
		s.Sliced = append(s.Sliced, name)
	}
}

// onePlace reports whether the bracket that a list begins with has one place in it, as [i] and [-1], not [:, 0].
func onePlace(list []token) bool {
	end := closing(list, 0)
	return end > 1 && len(splitTop(list[1:end], ",")) == 1 && len(splitTop(list[1:end], ":")) == 1
}

// isValue reports whether an expression may end with a token, so that a bracket behind it calls it or takes a part of
// it.
func isValue(t token) bool {
	return t.kind != signToken && !(t.kind == nameToken &&
		(t.text == "in" || t.text == "if" || t.text == "else" || t.text == "return" || t.text == "and" || t.text == "or" ||
			t.text == "not")) || t.closes()
}

// call takes note of the call, or of the part that is taken, whose bracket is token i.
func (s *Statement) call(list []token, i int) {
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
		s.Sites = append(s.Sites, Site{})
		return
	}
	last := list[k].text
	from := k
	for from >= 2 && list[from-1].is(".") && list[from-2].kind == nameToken {
		from -= 2
	}
	switch {
	case list[from].kind != nameToken:
	case from == k && (from == 0 || !list[from-1].is(".")):
		if !builtins[last] {
			s.Sites = append(s.Sites, Site{})
		}
	case list[from].text == "self" && (from == 0 || !list[from-1].is(".")):
		var path strings.Builder
		for j := from + 2; j <= k; j += 2 {
			if j > from+2 {
				path.WriteByte('.')
			}
			path.WriteString(list[j].text)
		}
		s.Sites = append(s.Sites, Site{path.String()})
	default: // a method, or a function of a library
		s.Ops++
		s.Inplace = s.Inplace || strings.HasSuffix(last, "_") && !strings.HasSuffix(last, "__")
	}
}

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
