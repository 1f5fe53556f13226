package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/test/must"
)

// hostile are names that try to be more than a name wherever they are shown.
var hostile = []string{
	"\x1b[2J\x1b]8;;http://evil\x07", "a\rb\nc", "\u202egnp.exe", "a|b|c", "`code`", "[x](http://evil)",
	"![](http://evil)",
	"<img src=x onerror=y>", "@team", "#1", "GH-1", "::set-output name=x::y", "##[error]z", "=cmd()", "+1", "-1",
	"@SUM(A1)", "\xff\xfe",
	strings.Repeat("n", 1<<20), "", "</details>", "a\\|b", "**bold**", "https://evil.example",
}

// fake returns a report with n layers, named in turn by names.
func fake(n int, names []string) *estimate.Report {
	r := &estimate.Report{
		Schema: estimate.Schema,
		Model: estimate.ModelInfo{Name: names[0], Graph: names[len(names)-1], Opsets: map[string]int64{"": 17},
			Producer: names[1%len(names)], Nodes: n},
		Parameters: module.Tensors{},
		Coverage:   estimate.Coverage{Nodes: n, Modelled: n},
		Notes:      []estimate.Note{{Level: estimate.Warning, Text: "about " + names[0]}},
	}
	for i := range n {
		name := names[i%len(names)]
		l := module.Layer{
			Index: i, Name: name, Op: name, Nodes: 1, Inputs: []string{name},
			Outputs: []module.Tensor{{Name: name, DType: "float32", Shape: []int64{int64(i), 3}}},
			Params:  int64(i), ParamBytes: 4 * int64(i), Activation: 12345 * int64(i),
		}
		r.Layers = append(r.Layers, l)
		r.Parameters.Count += l.Params
		r.Parameters.Bytes += l.ParamBytes
		r.Activations.Forward += l.Activation
	}
	r.Model.Inputs = []module.Tensor{{Name: names[0], DType: "float32", Shape: []int64{1}}}
	r.Activations.WithBackward = 2 * r.Activations.Forward
	return r
}

// Whatever a file's names are, the text has one line a layer, begins no line with a
// name, and has no control characters.
func TestTextKeepsItsShape(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, Text(&b, fake(len(hostile), hostile), 0))
	if n, want := strings.Count(b.String(), "\n"), len(hostile)+2+3+2+1+4; n < want-1 || n > want+1 {
		t.Errorf("%d lines for %d layers:\n%s", n, len(hostile), b.String())
	}
	for line := range strings.Lines(b.String()) {
		trimmed := strings.TrimSpace(line)
		for _, bad := range []string{"::", "##["} {
			if strings.HasPrefix(trimmed, bad) {
				t.Errorf("line %q is a command to a CI runner", line)
			}
		}
		for _, c := range strings.TrimSuffix(line, "\n") {
			if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
				t.Errorf("line %q has a control character", line)
				break
			}
		}
		if len(line) > 400 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// A comment on GitHub shows the report as it was meant: every layer one row, and no
// name is a link, an image, a mention or HTML.
func TestMarkdownKeepsItsShape(t *testing.T) {
	var b bytes.Buffer
	must.OK(t, Markdown(&b, fake(len(hostile), hostile)))
	source := b.Bytes()
	doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	rows := map[int]int{} // rows by number of cells
	err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link, *ast.AutoLink, *ast.Image, *ast.RawHTML:
			t.Errorf("a name became a %s", n.Kind())
		case *ast.HTMLBlock:
			if s := string(n.Lines().Value(source)); !strings.HasPrefix(s, "<details>") && !strings.HasPrefix(s, "</details>") {
				t.Errorf("a name became HTML: %s", s)
			}
		case *east.TableRow:
			rows[n.ChildCount()]++
		case *ast.Text:
			if n.Parent().Kind() != ast.KindCodeSpan && bytes.ContainsAny(n.Segment.Value(source), "@`<") {
				t.Errorf("text outside a code span: %q", n.Segment.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	must.OK(t, err)
	if want := len(hostile) + 1 + shownLayers; rows[6] != want || rows[3] != 4 || len(rows) != 2 {
		t.Errorf("rows by their number of cells: %v, want %d of 6 and 4 of 3", rows, want)
	}
}

func TestMarkdownFitsAComment(t *testing.T) {
	for _, n := range []int{0, 1, 100, 100_000} {
		r := fake(n, hostile)
		for range 2000 {
			r.Notes = append(r.Notes, estimate.Note{Level: estimate.Info, Text: strings.Repeat("note ", 50)})
		}
		var b bytes.Buffer
		must.OK(t, Markdown(&b, r))
		if b.Len() > MarkdownLimit {
			t.Errorf("%d layers: %d bytes", n, b.Len())
		}
		if !strings.Contains(b.String(), "**total**") || strings.Count(b.String(), "<details>") != 1 ||
			strings.Count(b.String(), "</details>\n") != 1 {
			t.Errorf("%d layers: the totals or the fold are gone", n)
		}
		if cut := strings.Contains(b.String(), "more rows"); cut != (n > 1000) {
			t.Errorf("%d layers: rows left out: %v", n, cut)
		}
	}
}

// The numbers printed in a column add up to the total printed under it: counts exactly,
// sizes to the last digit shown of each.
func TestPrintedColumnsAddUp(t *testing.T) {
	for _, n := range []int{1, 7, 500} {
		g := Layers(fake(n, []string{"layer"}), false)
		for i, c := range g.Columns {
			if !c.Right || c.Title == "#" {
				continue
			}
			sum := 0.0
			for _, row := range g.Rows {
				sum += number(t, row[i])
			}
			tolerance := 0.0
			if strings.Contains(c.Title, "activation") {
				tolerance = 0.005 * float64(n+1)
			}
			if total := number(t, g.Footer[i]); math.Abs(sum-total) > tolerance {
				t.Errorf("column %q of %d rows adds up to %v, its total says %v", c.Title, n, sum, total)
			}
		}
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, ",", ""), 64)
	must.OK(t, err)
	return f
}

// CSV is read back as it was written: a record a layer, no cell a formula, sums exact.
func TestCSVKeepsItsShape(t *testing.T) {
	r := fake(len(hostile), hostile)
	var b bytes.Buffer
	must.OK(t, CSV(&b, r))
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(records) != len(hostile)+1 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	total := int64(0)
	for i, rec := range records[1:] {
		for _, cell := range rec {
			if cell != "" && strings.ContainsAny(cell[:1], "=+-@\t\r") {
				t.Errorf("cell %q is a formula", cell)
			}
		}
		if hostile[i] != "" && Show(hostile[i], 0) != rec[1] {
			t.Errorf("name %.40q is written %.40q", hostile[i], rec[1])
		}
		n, err := strconv.ParseInt(rec[9], 10, 64)
		must.OK(t, err)
		total += n
	}
	if total != r.Activations.Forward {
		t.Errorf("activations add up to %d, want %d", total, r.Activations.Forward)
	}
}

// JSON has every name exactly.
func TestJSONKeepsNames(t *testing.T) {
	r := fake(len(hostile), hostile)
	var b bytes.Buffer
	must.OK(t, JSON(&b, r))
	var back estimate.Report
	must.OK(t, json.Unmarshal(b.Bytes(), &back))
	for i, l := range back.Layers {
		if want := hostile[i]; l.Name != want && want != "\xff\xfe" {
			t.Errorf("name %.40q came back as %.40q", want, l.Name)
		}
	}
}

func TestModelSizeName(t *testing.T) {
	for _, tt := range []struct{ name, graph, want string }{
		{"conv_example", "Sequential", "Sequential"},
		{"resnet50", "main_graph", "resnet50"},
		{"m.onnx", "a b", "m.onnx"},
		{"a\nb", "", `"a\nb"`},
	} {
		var b bytes.Buffer
		must.OK(t, ModelSize(&b, &estimate.Report{Model: estimate.ModelInfo{Name: tt.name, Graph: tt.graph}}))
		if first, _, _ := strings.Cut(b.String(), "\n"); first != fmt.Sprintf("Model %s : params: 0.000000M", tt.want) {
			t.Errorf("name %q, graph %q: %s", tt.name, tt.graph, first)
		}
		if strings.Count(b.String(), "\n") != 3 {
			t.Errorf("not three lines: %q", b.String())
		}
	}
}
