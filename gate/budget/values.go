//go:build !js

package budget

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/spelling"
)

// several returns the items of a list, or the one value that stands in its place.
func several(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

// values reads the values of a key that takes one scalar or several, each of the type that its kind wants. Numbers and
// switches come out as the flags of memestimate take them.
func (p *parser) values(e entry) (out []Value, err error) {
	many := e.key.kind == texts || e.key.kind == numbers
	if e.value.Kind == yaml.SequenceNode && !many {
		return nil, p.errorf(e.value, "%s is a list, want one value", e.key.name)
	}
	items := several(e.value)
	if len(items) == 0 {
		return nil, p.errorf(e.value, "%s is an empty list", e.key.name)
	}
	for _, n := range items {
		text, err := p.scalar(e.key, n)
		if err != nil {
			return nil, err
		}
		out = append(out, Value{text, n.Line})
	}
	return out, nil
}

// scalar reads one value.
func (p *parser) scalar(k key, n *yaml.Node) (string, error) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "" {
		return "", p.errorf(n, "%s is %s, want %s", k.name, kindOf(n), wants[k.kind])
	}
	switch k.kind {
	case number, numbers:
		if i, ok := whole(n); ok && i >= 1 {
			return strconv.FormatInt(i, 10), nil
		}
		return "", p.errorf(n, "%s is %s, want %s", k.name, quoted(n), wants[k.kind])
	case yesno:
		var yes bool
		if n.Tag != "!!bool" || n.Decode(&yes) != nil {
			return "", p.errorf(n, "%s is %s, want %s", k.name, quoted(n), wants[k.kind])
		}
		return strconv.FormatBool(yes), nil
	case growth:
		if i, ok := whole(n); ok && i == 0 {
			return "0", nil
		}
	}
	switch {
	case (k.kind == amount || k.kind == growth) && n.Tag != "!!str":
		return "", p.errorf(n, "%s: %s has no unit, want %s", k.name, n.Value, wants[k.kind])
	case n.Tag != "!!str":
		return "", p.errorf(n, "%s is %s, which YAML takes for no text: put it in quotes", k.name, n.Value)
	case k.kind == amount && !fits(sizePattern, n.Value), k.kind == growth && !fits(sizePattern, n.Value) &&
		!fits(sharePattern, n.Value):
		return "", p.errorf(n, "%s is %q, want %s", k.name, n.Value, wants[k.kind])
	case k.enum == nil:
		return n.Value, nil
	}
	value, err := spelling.Value(k.name, n.Value)
	switch {
	case err != nil:
		return "", p.errorf(n, "%s: %w", k.name, err)
	case !slices.Contains(k.enum, value):
		x := p.errorf(n, "%s is %q, want %s", k.name, n.Value, strings.Join(k.enum, ", "))
		x.Key, x.Known = n.Value, k.enum
		return "", x
	}
	return value, nil
}

// wants says what the values of a kind are.
var wants = map[kind]string{
	text: "a text", texts: "a text", yesno: "true or false", number: "a whole number from 1",
	numbers: "a whole number from 1",
	amount:  "a size with its unit, such as 24GiB or 800 MB", growth: "a share such as 5%, a size such as 200MiB, or 0",
}

// quoted shows a scalar, with quotes where the file has them: they make a text of a number.
func quoted(n *yaml.Node) string {
	if n.Tag == "!!str" {
		return strconv.Quote(n.Value)
	}
	return n.Value
}

// whole returns the whole number that a scalar is, in any of YAML's spellings.
func whole(n *yaml.Node) (int64, bool) {
	var i int64
	var f float64
	switch {
	case n.Kind != yaml.ScalarNode:
	case n.Tag == "!!int" && n.Decode(&i) == nil:
		return i, true
	case n.Tag == "!!float" && n.Decode(&f) == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53:
		return int64(f), true
	}
	return 0, false
}

// fits reports whether a text is as a pattern wants it.
func fits(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }

// named reads a mapping of names to values as the flags NAME=VALUE.
func (p *parser) named(e entry) (out []string, err error) {
	if e.value.Kind != yaml.MappingNode {
		return nil, p.errorf(e.value, "%s is %s, want a mapping of names to sizes", e.key.name, kindOf(e.value))
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(e.value.Content); i += 2 {
		k, v := e.value.Content[i], e.value.Content[i+1]
		if k.Kind != yaml.ScalarNode || k.Value == "" || seen[k.Value] {
			return nil, p.errorf(k, "%s has the name %s, want names that are there once", e.key.name, kindOf(k))
		}
		seen[k.Value] = true
		n, isNumber := whole(v)
		isNumber = isNumber && !strings.ContainsAny(v.Value, "xX") // 0x3 is a number to YAML, and a shape to whoever wrote it
		switch {
		case isNumber && (n >= 1 || n == 0 && e.key.kind == shapes):
			out = append(out, k.Value+"="+strconv.FormatInt(n, 10))
		case e.key.kind == shapes && v.Kind == yaml.ScalarNode && v.Tag == "!!str" && fits(shapePattern, v.Value):
			out = append(out, k.Value+"="+v.Value)
		case e.key.kind == shapes:
			return nil, p.errorf(v, "%s: %q is %s, want sizes joined by x, such as 8x3x224x224, or scalar", e.key.name, k.Value,
				kindOf(v))
		default:
			return nil, p.errorf(v, "%s: %q is %s, want a whole number from 1", e.key.name, k.Value, kindOf(v))
		}
	}
	return out, nil
}
