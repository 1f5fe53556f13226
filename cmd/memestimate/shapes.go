package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	json "github.com/go-json-experiment/json/v1"
	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/report"
)

// shapesCommand prints what is inferred about every value of a model.
func shapesCommand(e *env) *cobra.Command {
	var s settings
	var o output
	cmd := &cobra.Command{
		Use:   "shapes MODEL",
		Short: "Print the inferred type and shape of every value",
		Long: `Print the inferred type and shape of every value of a model. Dimensions that were not given
a size stay symbols; one that depends on the data is null, and "at_most" has its limit.`,
		Args: exactly("MODEL"),

		ValidArgsFunction: completeModel,
		RunE: func(cmd *cobra.Command, args []string) error {
			in := resolve(args[0])
			if err := o.check(in); err != nil {
				return err
			}
			p := startProgress(e, "reading "+quoteArg(in.arg))
			defer p.done()
			m, err := s.read(e, in)
			if err != nil {
				return err
			}
			defer m.Close()
			types, err := shape.Infer(m, s.shapeOptions())
			if err != nil {
				return s.explain(err, cmd.CommandPath(), in, m)
			}
			if len(types.Unknown) > 0 && s.strict {
				u := types.Unknown[0]
				return fail(exitInput, "%s: operator %q of domain %q is not modelled", quoteArg(in.arg), u.Op, u.Domain)
			}
			values := valueTypes(m, types)
			p.done()
			return o.write(e, func(w io.Writer) error {
				if o.format == "json" {
					return writeValues(w, values)
				}
				return o.grid(w, e, valueGrid(values))
			})
		},
	}
	addFlags(cmd.Flags(), s.modelRows())
	o.flags(cmd.Flags(), "text", "markdown", "csv", "json")
	return cmd
}

// An extent is the size of a dimension in JSON: a number, a symbol, or null where it is not known.
type extent any

// A valueType is the type of values as "shapes" prints it.
type valueType struct {
	Kind   string   `json:"kind,omitempty"` // "sequence", "optional", "map"; "" for tensors
	DType  string   `json:"dtype"`          // of the elements; "" when unknown
	Shape  []extent `json:"shape"`          // null when unknown
	AtMost []extent `json:"at_most,omitempty"`
	Type   string   `json:"type,omitempty"` // of what is no tensor, in full: "optional(sequence(float32[5]))"

	words, shape string // the same for a table: "optional of sequence of float32", "[8, batch*2]"
	json         []byte // the same as JSON; nil until it is asked for
}

// A namedValue is a value with its type, which others share.
type namedValue struct {
	name string
	*valueType
}

// valueTypes lists the values that have a name, in the order of the file; of those that share
// a name in different subgraphs, the outermost.
func valueTypes(m *onnxload.Model, types *shape.Result) []namedValue {
	out := make([]namedValue, 0, len(m.Values))
	known := map[*shape.Type]*valueType{}
	var seen map[string]bool // nil where each name is there once
	if slices.ContainsFunc(m.Graph.Nodes, hasGraphs) {
		seen = make(map[string]bool, len(m.Values))
	}
	for i := range m.Values {
		name := m.Values[i].Name
		if name == "" || seen[name] {
			continue
		}
		if seen != nil {
			seen[name] = true
		}
		shared := types.Shared(onnxload.ValueID(i))
		v := known[shared]
		if v == nil {
			v = describeType(types.Type(onnxload.ValueID(i)), types)
			known[shared] = v
		}
		out = append(out, namedValue{name, v})
	}
	return out
}

func hasGraphs(n onnxload.Node) bool {
	return slices.ContainsFunc(n.Attrs, func(a onnxload.Attr) bool { return len(a.Graphs) > 0 })
}

func describeType(t shape.Type, types *shape.Result) *valueType {
	v := &valueType{}
	if t.Of != nil {
		v.Kind, v.Type = kindName(t.Kind), t.String()
	}
	for ; t.Of != nil; t = *t.Of {
		v.words += kindName(t.Kind)
		if t.Kind == onnxload.MapType {
			v.words += " from " + t.Elem.String()
		}
		v.words += " of "
	}
	if t.Elem != onnxload.Undefined {
		v.DType = t.Elem.String()
	}
	v.words += v.DType
	v.Shape, v.AtMost = dimsOf(t.Shape, types)
	v.shape = shapeText(v)
	return v
}

func kindName(k onnxload.Kind) string {
	switch k {
	case onnxload.SequenceType:
		return "sequence"
	case onnxload.OptionalType:
		return "optional"
	case onnxload.MapType:
		return "map"
	}
	return ""
}

// dimsOf returns the dimensions for JSON, and where some depend on data the most that
// they can be.
func dimsOf(s shape.Shape, types *shape.Result) (dims, atMost []extent) {
	if !s.Ranked {
		return nil, nil
	}
	dims, limits := make([]extent, len(s.Dims)), make([]extent, len(s.Dims))
	bounded := false
	for i, d := range s.Dims {
		dims[i] = dimOf(d)
		limit, ok := types.Limit(d)
		bounded = bounded || ok
		limits[i] = dimOf(limit)
	}
	if !bounded {
		return dims, nil
	}
	return dims, limits
}

func dimOf(d shape.Dim) any {
	if n, ok := d.Int(); ok {
		return n
	}
	if d.Unnamed() {
		return nil
	}
	return d.String()
}

// writeValues writes {"schema": ..., "values": {name: {dtype, shape}}}, in order.
func writeValues(w io.Writer, values []namedValue) error {
	b := bufio.NewWriter(w) // whose first error Flush returns
	var name bytes.Buffer
	encoder := json.NewEncoder(&name)
	fmt.Fprintf(b, "{\"schema\": %q, \"values\": {", shapesForm)
	for i, v := range values {
		name.Reset()
		err := encoder.Encode(v.name)
		if err == nil && v.json == nil {
			v.json, err = json.Marshal(v.valueType)
		}
		if err != nil {
			return err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString("\n  ")
		b.Write(bytes.TrimSuffix(name.Bytes(), []byte("\n")))
		b.WriteString(": ")
		b.Write(v.json)
	}
	b.WriteString("\n}}\n")
	return b.Flush()
}

func valueGrid(values []namedValue) *report.Grid {
	g := &report.Grid{Columns: []report.Column{
		{Title: "#", Right: true}, {Title: "value", File: true}, {Title: "type"}, {Title: "shape", Code: true},
	}}
	g.Rows = make([][]string, len(values))
	cells := make([]string, 4*len(values))
	for i, v := range values {
		g.Rows[i], cells = cells[:4:4], cells[4:]
		copy(g.Rows[i], []string{report.Count(int64(i)), v.name, v.words, v.shape})
	}
	return g
}

func shapeText(v *valueType) string {
	if v.Shape == nil {
		return "?"
	}
	text := "["
	for i, d := range v.Shape {
		if i > 0 {
			text += ", "
		}
		switch {
		case d != nil:
			text += dimText(d)
		case v.AtMost != nil && v.AtMost[i] != nil:
			text += fmt.Sprintf("<=%v", v.AtMost[i])
		default:
			text += "?"
		}
	}
	return text + "]"
}

// arithmetic is what an expression has around its symbols.
var arithmetic = strings.NewReplacer("*", "", "(", "", ")", "", " ", "", ",", "", "-", "", "+", "")

// dimText writes a number or an expression. The symbols in it come from the file: where
// one is out of the ordinary, the whole is quoted.
func dimText(d any) string {
	s, ok := d.(string)
	if !ok {
		return fmt.Sprint(d)
	}
	if symbols := arithmetic.Replace(s); report.Show(symbols, 0) != symbols {
		return report.Show(s, 0)
	}
	return s
}
