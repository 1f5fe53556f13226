package budget

import (
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// several returns the items of a list, or the one value that stands in its place.
func several(n *yaml.Node) []*yaml.Node {
	if n.Kind == yaml.SequenceNode {
		return n.Content
	}
	return []*yaml.Node{n}
}

// values reads the values of a key that takes one scalar or several, each of the type that its kind wants.
func (p *parser) values(e entry) (out []Value, err error) {
	if e.value.Kind == yaml.SequenceNode && e.key.Kind != texts {
		return nil, p.errorf(e.value, "%s is a list, want one value", e.key.Name)
	}
	items := several(e.value)
	if len(items) == 0 {
		return nil, p.errorf(e.value, "%s is an empty list", e.key.Name)
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
func (p *parser) scalar(k Key, n *yaml.Node) (string, error) {
	want := wants[k.Kind]
	switch {
	case n.Kind != yaml.ScalarNode || n.Tag == "!!null" || n.Value == "":
		return "", p.errorf(n, "%s is %s, want %s", k.Name, kindOf(n), want)
	case k.Kind == yesno && n.Tag == "!!bool":
		var yes bool
		return strconv.FormatBool(n.Decode(&yes) == nil && yes), nil
	case k.Kind == yesno:
		return "", p.errorf(n, "%s is %q, want %s", k.Name, n.Value, want)
	case k.Kind == growth && n.Tag == "!!int" && n.Value == "0":
		return "0", nil
	case (k.Kind == amount || k.Kind == growth) && n.Tag != "!!str":
		return "", p.errorf(n, "%s: %s has no unit, want %s", k.Name, n.Value, want)
	case n.Tag != "!!str":
		return "", p.errorf(n, "%s is %s, which YAML takes for no text: put it in quotes", k.Name, n.Value)
	case k.Enum != nil && !slices.Contains(k.Enum, n.Value):
		x := p.errorf(n, "%s is %q, want %s", k.Name, n.Value, strings.Join(k.Enum, ", "))
		x.Key, x.Known = n.Value, k.Enum
		return "", x
	}
	return n.Value, nil
}

// wants says what the values of a kind are.
var wants = map[kind]string{
	text: "a text", texts: "a text", yesno: "true or false",
	amount: "a size with its unit, such as 24GiB or 800 MB", growth: "a share such as 5%, a size such as 200MiB, or 0",
}
