package shape

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// A schema is one version of an operator as ONNX's documents have it.
type schema struct {
	since    int64
	defaults []onnxload.Attr
}

// readSchemas reads testdata/onnx-schemas.txt, a line a version of an operator: [DOMAIN:]NAME@VERSION and its
// attributes, each NAME:TYPE with =DEFAULT where there is one, or ! where it is required.
func readSchemas() (map[opKey][]schema, error) {
	file, err := os.ReadFile("testdata/onnx-schemas.txt")
	if err != nil {
		return nil, err
	}
	out := map[opKey][]schema{}
	for line := range strings.Lines(string(file)) {
		words := strings.Fields(line)
		name, version, _ := strings.Cut(words[0], "@")
		var k opKey
		k.name = name
		if domain, rest, ok := strings.Cut(name, ":"); ok {
			k = opKey{domain, rest}
		}
		var s schema
		if s.since, err = strconv.ParseInt(version, 10, 64); err != nil {
			return nil, err
		}
		for _, w := range words[1:] {
			attr, value, ok := strings.Cut(w, "=")
			if !ok {
				continue
			}
			attr, typ, _ := strings.Cut(attr, ":")
			a, err := schemaDefault(attr, typ, value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", words[0], err)
			}
			s.defaults = append(s.defaults, a)
		}
		out[k] = append(out[k], s)
	}
	for _, versions := range out {
		slices.SortFunc(versions, func(a, b schema) int { return int(a.since - b.since) })
	}
	return out, nil
}

// schemaDefault makes an attribute of a default as the documents write it.
func schemaDefault(name, typ, value string) (a onnxload.Attr, err error) {
	a.Name = name
	list := strings.Split(strings.Trim(value, "[]"), ",")
	for i := range list {
		list[i] = strings.Trim(list[i], "'()")
	}
	switch typ {
	case "int":
		a.Type = onnxload.AttrInt
		a.Int, err = strconv.ParseInt(value, 10, 64)
	case "ints":
		a.Type = onnxload.AttrInts
		for _, s := range list {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return a, err
			}
			a.Ints = append(a.Ints, n)
		}
	case "float":
		a.Type = onnxload.AttrFloat
		var x float64
		x, err = strconv.ParseFloat(list[0], 32)
		a.Float = float32(x)
	case "string":
		a.Type, a.Str = onnxload.AttrString, value
	case "strings":
		a.Type, a.Strs = onnxload.AttrStrings, list
	default:
		err = fmt.Errorf("attribute %s: a default of type %s", name, typ)
	}
	return a, err
}

// in returns the schema in force at a version.
func schemaAt(versions []schema, version int64) *schema {
	for i := len(versions) - 1; i >= 0; i-- {
		if versions[i].since <= version {
			return &versions[i]
		}
	}
	return nil
}

// withDefaults calls f for the node with each default written out that it leaves out, and without each that it writes
// out. What the node means stays the same.
func withDefaults(n *onnxload.Node, s *schema, f func(change string)) {
	given := n.Attrs
	for _, d := range s.defaults {
		i := slices.IndexFunc(given, func(a onnxload.Attr) bool { return a.Name == d.Name })
		switch {
		case i < 0:
			n.Attrs = append(slices.Clone(given), d)
			f("with " + d.Name)
		case given[i].Type == d.Type && fmt.Sprint(given[i]) == fmt.Sprint(d):
			n.Attrs = slices.Delete(slices.Clone(given), i, i+1)
			f("without " + d.Name)
		}
	}
	n.Attrs = given
}

// Every version of every operator has a row but those that withoutRow names, and a node means the same whether its
// attributes' defaults are written out or not.
func TestSchemas(t *testing.T) {
	schemas, err := readSchemas()
	must.OK(t, err)
	versions := 0
	for k, vs := range schemas {
		for _, s := range vs {
			if withoutRow(k.domain, k.name) {
				continue
			}
			versions++
			if row := opTable().find(k.domain, k.name, s.since); row == nil || row.since > s.since {
				t.Errorf("no row for %s:%s since %d", k.domain, k.name, s.since)
			}
		}
	}
	changes := 0
	tests, err := nodeTests()
	must.OK(t, err)
	for _, test := range tests {
		m, err := onnxload.Read(bytes.NewReader(test.data), int64(len(test.data)), onnxload.Options{})
		must.OK(t, err)
		want := describe(m)
		for i := range m.Graph.Nodes {
			n := &m.Graph.Nodes[i]
			s := schemaAt(schemas[opKey{n.Domain, n.Op}], n.Version)
			if s == nil || len(m.Graph.Nodes) > 100 {
				continue
			}
			withDefaults(n, s, func(change string) {
				changes++
				if got := describe(m); got != want {
					t.Errorf("%s, %s %s:\n%s\nwant\n%s", test.name, n.Op, change, got, want)
				}
			})
		}
	}
	files, err := filepath.Glob("testdata/ops/*.txt")
	must.OK(t, err)
	for _, file := range files {
		data := must.Read(t, file)
		for line := range strings.Lines(string(data)) {
			words, err := splitLine(strings.TrimSpace(line))
			if err != nil || len(words) < 3 || words[0][0] == '#' || words[1] == "see" {
				continue
			}
			l, err := parseLine(words)
			must.OK(t, err)
			s := schemaAt(schemas[opKey{l.node.Domain, l.node.Op}], l.node.Version)
			if s == nil {
				continue
			}
			want := describeNode(words, l.node.Attrs)
			withDefaults(&l.node, s, func(change string) {
				changes++
				if got := describeNode(words, l.node.Attrs); got != want {
					t.Errorf("%s: %s %s:\n%s\nwant\n%s", file, line, change, got, want)
				}
			})
		}
	}
	t.Logf("%d versions of %d operators, %d changes", versions, len(schemas), changes)
	if versions < 580 || changes < 2000 {
		t.Errorf("%d versions, %d changes; want many more", versions, changes)
	}
}

// describe writes what inference says of the values of a model.
func describe(m *onnxload.Model) string {
	r, err := Infer(m, Options{})
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, id := range m.Graph.Outputs {
		fmt.Fprintln(&b, r.Type(id), r.Value(id))
	}
	return b.String()
}

// describeNode writes what inference says of the node of a line when it has these attributes.
func describeNode(words []string, attrs []onnxload.Attr) string {
	l, err := parseLine(words)
	if err != nil {
		return err.Error()
	}
	l.node.Attrs = attrs
	if err := l.f.node(&call{inf: l.f}, &l.node); err != nil {
		return err.Error()
	}
	var b strings.Builder
	for _, id := range l.node.Out {
		if id != onnxload.NoValue {
			b.WriteString(formatType(l.f.typeOf(id)) + formatValue(l.f.constant(id)) + " ")
		}
	}
	return b.String()
}
