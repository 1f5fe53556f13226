package shape

import (
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/test/must"
)

// parseModel builds a model from text, one line a statement:
//
//	in x:batch,3 k:int64:-         inputs, with types as in testdata/ops, whose dimensions may be symbols
//	a b = Op@12 x _ axis=1         a node; "_" omits an input or output
//	info a:4,3                     what the file declares of values
//	out a b                        outputs
//	graph NAME                     the lines after it are a graph of their own
//
// An attribute body=&NAME is that graph. Names are those of the whole model.
func parseModel(t testing.TB, text string) *onnxload.Model {
	t.Helper()
	m := &onnxload.Model{Values: make([]onnxload.Value, 1), Graph: &onnxload.Graph{}}
	graphs := map[string]*onnxload.Graph{}
	ids := map[string]onnxload.ValueID{"_": onnxload.NoValue}
	value := func(name string) onnxload.ValueID {
		id, ok := ids[name]
		if !ok {
			id = onnxload.ValueID(len(m.Values))
			ids[name] = id
			m.Values = append(m.Values, onnxload.Value{Name: name})
		}
		return id
	}
	graph := func(name string) *onnxload.Graph {
		if graphs[name] == nil {
			graphs[name] = &onnxload.Graph{Name: name}
		}
		return graphs[name]
	}
	g := m.Graph
	for _, line := range strings.Split(text, "\n") {
		words, err := splitLine(strings.TrimSpace(line))
		must.OK(t, err)
		if len(words) == 0 {
			continue
		}
		switch words[0] {
		case "graph":
			g = graph(words[1])
			continue
		case "in", "info":
			for _, w := range words[1:] {
				name, text, typed := strings.Cut(w, ":")
				id := value(name)
				if typed {
					d, err := declaredType(text)
					if err != nil {
						t.Fatalf("%s: %v", line, err)
					}
					m.Values[id].Declared = &d
				}
				if words[0] == "in" {
					g.Inputs = append(g.Inputs, id)
				}
			}
			continue
		case "out":
			for _, w := range words[1:] {
				g.Outputs = append(g.Outputs, value(w))
			}
			continue
		}
		n := onnxload.Node{Version: 26}
		i := 0
		for ; words[i] != "="; i++ {
			n.Out = append(n.Out, value(words[i]))
		}
		n.Op, n.Name = words[i+1], words[0]+"_node"
		for _, w := range words[i+2:] {
			name, text, isAttr := strings.Cut(w, "=")
			switch {
			case isAttr && strings.HasPrefix(text, "&"):
				n.Attrs = append(n.Attrs, onnxload.Attr{Name: name, Type: onnxload.AttrGraph,
					Graphs: []*onnxload.Graph{graph(text[1:])}})
			case isAttr:
				a, err := parseAttr(w)
				if err != nil {
					t.Fatalf("%s: %v", line, err)
				}
				n.Attrs = append(n.Attrs, a)
			default:
				n.In = append(n.In, value(w))
			}
		}
		g.Nodes = append(g.Nodes, n)
	}
	return m
}

// declaredType is what a file says of a type, with symbols in the places of dimensions.
func declaredType(text string) (onnxload.Type, error) {
	elem, dims, ok := strings.Cut(text, ":")
	if !ok || strings.Contains(elem, "(") {
		elem, dims = "", text
	}
	symbols := map[int]string{}
	list := strings.Split(dims, ",")
	for i, d := range list {
		if _, err := strconv.ParseInt(d, 10, 64); err != nil && !strings.ContainsAny(d, "?()<") && d != "*" && d != "-" {
			symbols[i], list[i] = d, "?"
		}
	}
	typ, _, err := parseType(strings.TrimPrefix(elem+":"+strings.Join(list, ","), ":"))
	out := declare(typ)
	for i, name := range symbols {
		if i < len(out.Dims) {
			out.Dims[i].Param = name
		}
	}
	return out, err
}

// declare turns a type into what a file would say.
func declare(t Type) onnxload.Type {
	out := onnxload.Type{Kind: t.Kind, Elem: t.Elem, HasRank: t.Shape.Ranked}
	for _, d := range t.Shape.Dims {
		n, ok := d.Int()
		out.Dims = append(out.Dims, onnxload.Dim{Known: ok, Size: n})
	}
	if t.Of != nil {
		of := declare(*t.Of)
		out.Of = &of
	}
	return out
}

// typeOf returns the type of a named value, as the lines of testdata/ops write it.
func (r *Result) typeOf(t testing.TB, name string) string {
	t.Helper()
	for i := range r.m.Values {
		if r.m.Values[i].Name == name {
			return strings.ReplaceAll(formatType(r.Type(onnxload.ValueID(i))), "float32:", "")
		}
	}
	t.Fatalf("the model has no value %q", name)
	return ""
}

// wantTypes compares types with what "name:TYPE" words say.
func wantTypes(t testing.TB, r *Result, want string) {
	t.Helper()
	for _, w := range strings.Fields(want) {
		name, typ, _ := strings.Cut(w, ":")
		if got := r.typeOf(t, name); got != typ {
			t.Errorf("%s is %s, want %s", name, got, typ)
		}
	}
}

func mustInfer(t testing.TB, text string, opt Options) *Result {
	t.Helper()
	r, err := Infer(parseModel(t, text), opt)
	must.OK(t, err)
	return r
}
