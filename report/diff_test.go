package report

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/torch"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/test/must"
)

// hostileDiff is what changes between models whose names are hostile: half of the layers are widened, the others go.
func hostileDiff(n, cases int) *diff.Diff {
	base, head := fake(n, hostile), fake(n/2, hostile)
	for i := range head.Layers {
		head.Layers[i].Params += 5
	}
	base.Peak = &estimate.Peak{Device: 100, Layer: hostile[3]}
	head.Peak = &estimate.Peak{Device: 300, Layer: hostile[4]}
	d := &diff.Diff{Schema: diff.Schema, Base: base.Model, Head: head.Model}
	for range cases {
		d.Cases = append(d.Cases, diff.Compare("batch 1", base, head))
	}
	return d
}

// Shown on GitHub, a diff is one table and one fold a case, and no name is more than a name.
func TestDiffMarkdownKeepsItsShape(t *testing.T) {
	for _, cases := range []int{1, 3} {
		var b bytes.Buffer
		must.OK(t, DiffMarkdown(&b, hostileDiff(2*len(hostile), cases), MarkdownLimit))
		source := b.Bytes()
		doc := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
		tables, rows := 0, map[int]int{}
		err := ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.RawHTML:
				if html := string(n.Segments.Value(source)); html != "<br>" {
					t.Errorf("a name became %s", html)
				}
			case *ast.Link, *ast.AutoLink, *ast.Image:
				t.Errorf("a name became a %s", n.Kind())
			case *ast.HTMLBlock:
				if s := string(n.Lines().Value(source)); !strings.HasPrefix(s, "<details>") && !strings.HasPrefix(s, "</details>") {
					t.Errorf("a name became HTML: %s", s)
				}
			case *east.Table:
				tables++
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
		if tables != 1+cases || rows[5] < cases*len(hostile) {
			t.Errorf("%d tables, rows by their number of cells: %v", tables, rows)
		}
	}
}

// However much changes, a diff keeps to its limit, and each fold that opens closes.
func TestDiffMarkdownFits(t *testing.T) {
	for _, n := range []int{0, 10, 3000} {
		for _, cases := range []int{1, 4, 200} {
			for _, limit := range []int{4096, 20_000, MarkdownLimit} {
				if n == 3000 && cases == 200 {
					continue
				}
				var b bytes.Buffer
				must.OK(t, DiffMarkdown(&b, hostileDiff(n, cases), limit))
				if b.Len() > limit || strings.Count(b.String(), "\n<details>") != strings.Count(b.String(), "\n</details>\n") {
					t.Errorf("%d layers, %d cases, limit %d: %d bytes", n, cases, limit, b.Len())
				}
			}
		}
	}
}

// What became very much larger is told in times.
func TestPercent(t *testing.T) {
	for _, tt := range []struct {
		before, after int64
		want          string
	}{{100, 100, "="}, {0, 5, "new"}, {100, 0, "-100.00 %"}, {200, 201, "+0.50 %"}, {100, 999, "+899.00 %"},
		{100, 1000, "10x"}, {388, 8650756, "22,296x"}} {
		if got := Percent(diff.NewTotal("x", tt.before, tt.after)); got != tt.want {
			t.Errorf("from %d to %d: %q, want %q", tt.before, tt.after, got, tt.want)
		}
	}
}

// The settings of both sides are in one line, each that differs once.
func TestDiffSettings(t *testing.T) {
	c := diff.Case{
		Base: estimate.Settings{Batch: 8, Mode: "train", Settings: torch.Settings{Precision: "fp32", Optimizer: "sgd",
			Loss: "mean"}},
		Head: estimate.Settings{Batch: 8, Mode: "train", GPU: "t4",
			Settings: torch.Settings{Precision: "fp32", Optimizer: "adamw", Loss: "mean"}},
	}
	if got, want := DiffSettings(&c), "batch 8, train, fp32, sgd -> adamw, loss mean, none -> on t4"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := DiffSettings(&diff.Case{}); got != "" {
		t.Errorf("%q of nothing", got)
	}
}

// The other forms keep their shape too.
func TestDiffForms(t *testing.T) {
	d := hostileDiff(2*len(hostile), 2)
	var b bytes.Buffer
	must.OK(t, DiffText(&b, d, 0, 0))
	for line := range strings.Lines(b.String()) {
		for _, c := range strings.TrimSuffix(line, "\n") {
			if c < ' ' || c > '~' {
				t.Fatalf("line %q", line)
			}
		}
		if strings.HasPrefix(strings.TrimSpace(line), "::") || strings.HasPrefix(strings.TrimSpace(line), "##[") {
			t.Errorf("line %q is a command to a CI runner", line)
		}
	}
	b.Reset()
	must.OK(t, DiffCSV(&b, d))
	records, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(records) != 1+len(d.Cases[0].Layers)+len(d.Cases[1].Layers) {
		t.Errorf("%d records, %v", len(records), err)
	}
}
