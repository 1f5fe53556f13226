package budget

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/spelling"
)

// Parse reads a budget file. path is for its errors, which are *Error.
func Parse(path string, data []byte) (*File, error) {
	p := parser{path: path}
	if len(data) > MaxSize {
		return nil, p.errorf(nil, "%d bytes, want %d at most", len(data), MaxSize)
	}
	if err := p.readable(data); err != nil {
		return nil, err
	}
	var doc, more yaml.Node
	d := yaml.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); err != nil && !errors.Is(err, io.EOF) {
		return nil, p.syntax(err)
	}
	if len(doc.Content) != 1 {
		return nil, p.errorf(nil, "is empty, want the key %q at least", "models")
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, p.syntax(err)
		}
		return nil, p.errorf(&more, "a second document, want one")
	}
	return p.file(doc.Content[0])
}

type parser struct{ path string }

// readable refuses what YAML reads otherwise than a reviewer does: other encodings, which are shown as binary, line
// ends that are not shown as such, and marks that turn the direction of what follows.
func (p *parser) readable(data []byte) error {
	line := 1
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			return errorAt(p.path, line, "bytes that are no UTF-8")
		case c == 0x85 || c == 0x2028 || c == 0x2029 || unicode.Is(unicode.Bidi_Control, c):
			return errorAt(p.path, line, "%U, which people do not see", c)
		case c == '\n':
			line++
		}
		i += n
	}
	return nil
}

func (p *parser) errorf(n *yaml.Node, format string, args ...any) *Error {
	line := 0
	if n != nil {
		line = n.Line
	}
	return errorAt(p.path, line, format, args...)
}

var yamlLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)`) })

// syntax gives an error of the YAML reader the form of our own.
func (p *parser) syntax(err error) *Error {
	e := &Error{File: p.path, Text: err.Error()}
	if m := yamlLine().FindStringSubmatch(err.Error()); m != nil {
		e.Line, _ = strconv.Atoi(m[1])
		e.Text = m[2]
	}
	return e
}

// An entry is a key of a mapping and its value.
type entry struct {
	key   Key
	value *yaml.Node
}

// mapping takes a mapping apart: only these keys, or where there are none any, each once.
func (p *parser) mapping(n *yaml.Node, where string, keys []Key) ([]entry, error) {
	if n.Kind != yaml.MappingNode {
		return nil, p.errorf(n, "%s is %s, want a mapping", where, kindOf(n))
	}
	var out []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		key := Key{Name: spelling.Key(name.Value)}
		at := slices.IndexFunc(keys, func(k Key) bool { return k.Name == name.Value || !k.Must && k.Name == key.Name })
		if at >= 0 {
			key = keys[at]
		}
		if name.Kind != yaml.ScalarNode || at < 0 && keys != nil {
			e := p.errorf(name, "%s has no key %q, want one of %s", where, name.Value, strings.Join(names(keys), ", "))
			e.Key, e.Known = name.Value, names(keys)
			return nil, e
		}
		if slices.ContainsFunc(out, func(x entry) bool { return x.key.Name == key.Name }) {
			return nil, p.errorf(name, "%s has the key %q twice", where, key.Name)
		}
		if value.Kind == yaml.AliasNode || value.Anchor != "" && value.Kind != yaml.ScalarNode {
			return nil, p.errorf(value, "%q is an anchor or an alias: write it out, or set it for the whole file", name.Value)
		}
		out = append(out, entry{key, value})
	}
	for _, k := range keys {
		if k.Must && !slices.ContainsFunc(out, func(x entry) bool { return x.key.Name == k.Name }) {
			return nil, p.errorf(n, "%s has no %q, which it needs", where, k.Name)
		}
	}
	return out, nil
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "an alias"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	return fmt.Sprintf("%q", n.Value)
}

func (p *parser) file(n *yaml.Node) (*File, error) {
	entries, err := p.mapping(n, "the file", FileKeys)
	if err != nil {
		return nil, err
	}
	f := &File{Path: p.path}
	settings := []Settings{{}}
	var limits Limits
	var models *yaml.Node
	for _, e := range entries {
		switch e.key.Name {
		case "version":
			if e.value.Tag != "!!int" || e.value.Value != "1" {
				err = p.errorf(e.value, "version is %s, want 1", kindOf(e.value))
			}
		case "base":
			f.Base, err = p.revision(e)
		case "settings":
			settings, err = p.settings(e.value)
		case "limits":
			limits, err = p.limits(e.value)
		case "models":
			models = e.value
		}
		if err != nil {
			return nil, err
		}
	}
	for _, item := range several(models) {
		m, err := p.model(item, settings, limits)
		if err != nil {
			return nil, err
		}
		f.Models = append(f.Models, m)
	}
	if len(f.Models) == 0 {
		return nil, p.errorf(models, "models is an empty list")
	}
	return f, nil
}

// revision reads the name of a commit.
func (p *parser) revision(e entry) (Value, error) {
	v, err := p.values(e)
	if err != nil {
		return Value{}, err
	}
	if err := git.CheckRevision(v[0].Text); err != nil {
		return Value{}, p.errorf(e.value, "base %q %v", v[0].Text, err)
	}
	return v[0], nil
}

// model reads an entry of models. One that is only a text is its path.
func (p *parser) model(n *yaml.Node, settings []Settings, limits Limits) (Model, error) {
	m := Model{Line: n.Line, Settings: settings, Limits: limits}
	if n.Kind == yaml.ScalarNode && n.Value != "" && n.Tag == "!!str" {
		m.Paths = []Value{{n.Value, n.Line}}
		return m, nil
	}
	entries, err := p.mapping(n, "a model", modelKeys)
	if err != nil {
		return m, err
	}
	for _, e := range entries {
		switch e.key.Name {
		case "path":
			m.Paths, err = p.values(e)
		case "exclude":
			m.Exclude, err = p.values(e)
		case "new":
			m.New, err = p.values(e)
		case "lower-bound":
			var v []Value
			if v, err = p.values(e); err == nil {
				m.LowerBound = v[0].Text == "true"
			}
		case "settings":
			m.Settings, err = p.settings(e.value)
		case "limits":
			m.Limits, err = p.limits(e.value)
		}
		if err != nil {
			return m, err
		}
	}
	return m, nil
}

// settings reads which flags models are estimated with. Whether there are such flags, and what they take, is for those
// to say who have them.
func (p *parser) settings(n *yaml.Node) (out []Settings, err error) {
	for _, item := range several(n) {
		entries, err := p.mapping(item, "settings", nil)
		if err != nil {
			return nil, err
		}
		s := Settings{}
		for _, e := range entries {
			x := Setting{Name: e.key.Name, Line: e.value.Line}
			items := several(e.value)
			if e.value.Kind == yaml.MappingNode { // of names to values
				items = nil
				for i := 0; i+1 < len(e.value.Content); i += 2 {
					k, v := e.value.Content[i], e.value.Content[i+1]
					if k.Kind != yaml.ScalarNode || v.Kind != yaml.ScalarNode {
						return nil, p.errorf(v, "%s: %q is %s, want a value", x.Name, k.Value, kindOf(v))
					}
					x.Values = append(x.Values, k.Value+"="+v.Value)
				}
			}
			for _, v := range items {
				if v.Kind != yaml.ScalarNode || v.Tag == "!!null" {
					return nil, p.errorf(v, "%s is %s, want a value", x.Name, kindOf(v))
				}
				x.Values = append(x.Values, v.Value)
			}
			if len(x.Values) == 0 {
				return nil, p.errorf(e.value, "%s is an empty list", x.Name)
			}
			s = append(s, x)
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, p.errorf(n, "settings is an empty list")
	}
	return out, nil
}

func (p *parser) limits(n *yaml.Node) (l Limits, err error) {
	entries, err := p.mapping(n, "limits", limitKeys)
	if err != nil {
		return l, err
	}
	for _, e := range entries {
		values, err := p.values(e)
		if err != nil {
			return l, err
		}
		switch e.key.Kind {
		case text:
			l.Confidence = estimate.Confidence(values[0].Text)
		case texts:
			l.Fits = values
		case growth:
			g, err := ParseGrowth(values[0].Text)
			if err != nil {
				return l, p.errorf(e.value, "%s: %w", e.key.Name, err)
			}
			l.Growth = &GrowthLimit{g, e.value.Line}
		default:
			size, err := spelling.Size(values[0].Text)
			if err != nil {
				return l, p.errorf(e.value, "%s: %w", e.key.Name, err)
			}
			l.Sizes = append(l.Sizes, SizeLimit{totalOf[e.key.Name], size, e.value.Line})
		}
	}
	return l, nil
}

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
