package report

import (
	"bytes"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/test/must"
)

// modules returns a report of layers in modules two parts deep.
func modules() *estimate.Report {
	r := fake(12, []string{"a"})
	r.Parameters = module.Tensors{}
	for i := range r.Layers {
		l := &r.Layers[i]
		l.Module = "block" + strconv.Itoa(i/4) + ".part" + strconv.Itoa(i/2) + ".leaf" + strconv.Itoa(i)
		l.Name, l.Nodes, l.SavedBytes = l.Module, 2, 1000*int64(12-i)
		r.Parameters.Count += l.Params
		r.Parameters.Bytes += l.ParamBytes
	}
	r.Peak = &estimate.Peak{Layer: r.Layers[5].Name}
	return r
}

// cell returns a column's cells.
func column(t *testing.T, r *estimate.Report, name string) []string {
	t.Helper()
	g, err := Table(r, []string{name}, true)
	must.OK(t, err)
	var out []string
	for _, row := range g.Rows {
		out = append(out, row[0])
	}
	return append(out, g.Footer[0])
}

// Each column adds up to its total.
func TestTableAddsUp(t *testing.T) {
	r := modules()
	r.Activations.LossSaved = 7001
	for _, name := range []string{"parameters", "parameter-size", "activation", "saved", "share"} {
		cells := column(t, r, name)
		sum := 0.0
		for i, s := range cells {
			v, err := strconv.ParseFloat(s, 64)
			must.OK(t, err)
			if i < len(cells)-1 {
				sum += v
			} else if sum-v > 0.6 || v-sum > 0.6 {
				t.Errorf("%s adds up to %v, the total is %v", name, sum, v)
			}
		}
	}
}

// What the loss keeps is a row of each form of the layers, so that the column adds up to all that is kept.
func TestLossHasARow(t *testing.T) {
	r := modules()
	r.Settings.Loss, r.Activations.LossSaved, r.Model.Nodes = "cross-entropy", 1<<20, 99
	for _, l := range r.Layers {
		r.Activations.Saved += l.SavedBytes
	}
	r.Activations.Saved += r.Activations.LossSaved
	g := Layers(r, false)
	last := g.Rows[len(g.Rows)-1]
	if len(g.Rows) != 13 || last[1] != "loss" || last[2] != "cross-entropy" || last[6] != "1.00" || g.Footer[6] != "1.07" {
		t.Errorf("%q, in all %q", last, g.Footer)
	}
	exact := Layers(r, true)
	if last := exact.Rows[12]; last[0] != "99" || last[1] != "loss" || last[11] != "1048576" {
		t.Errorf("%q", last)
	}
	if cells := column(t, r, "layer"); cells[12] != "loss" {
		t.Errorf("%q", cells)
	}
	if len(r.Layers) != 12 {
		t.Errorf("the report has %d layers now", len(r.Layers))
	}
	r.Activations.LossSaved = 0
	if n := len(Layers(r, false).Rows); n != 12 {
		t.Errorf("%d rows of 12 layers and a loss that keeps nothing", n)
	}
}

func TestTableRefusesUnknownColumns(t *testing.T) {
	if _, err := Table(modules(), []string{"size"}, false); err == nil || !strings.Contains(err.Error(), "want index, ") {
		t.Error(err)
	}
}

// Hostile names keep the table's shape in Markdown too.
func TestTableWithHostileNames(t *testing.T) {
	g, err := Table(fake(len(hostile), hostile), nil, false)
	must.OK(t, err)
	var b bytes.Buffer
	must.OK(t, g.Markdown(&b, MarkdownLimit))
	for line := range strings.Lines(b.String()) {
		if strings.Count(line, "|") != len(g.Columns)+1 {
			t.Errorf("line %q", line)
		}
	}
}

// A graph without layers has its total below one rule, not below two.
func TestTableOfNoLayers(t *testing.T) {
	g, err := Table(fake(0, hostile), nil, false)
	must.OK(t, err)
	var b bytes.Buffer
	must.OK(t, g.Text(&b, 0))
	if n := strings.Count(b.String(), "\n-"); n != 1 {
		t.Errorf("%d rules in\n%s", n, b.String())
	}
}

func TestShow(t *testing.T) {
	for _, tt := range []struct {
		name  string
		limit int
		want  string
	}{
		{"layer1.0.conv1", 0, "layer1.0.conv1"},
		{"/m/onnx::MatMul_45", 60, "/m/onnx::MatMul_45"},
		{"", 0, `""`},
		{"=cmd()", 0, `"=cmd()"`},
		{"-1+2", 0, `"-1+2"`},
		{"a b", 0, `"a b"`},
		{"a|b`c", 0, `"a\x7cb\x60c"`},
		{"##[error]", 0, `"\x23\x23[error]"`},
		{"\x1b[2J\n", 0, `"\x1b[2J\n"`},
		{"a\u202eb", 0, `"a\u202eb"`},
		{"\xff\xfe", 0, `"\xff\xfe"`},
		{strings.Repeat("x", 100), 10, "xxxxxxx..."},
		{strings.Repeat("é", 100), 12, `"\u00e9"...`},
		{"\U0001f600", 5, `""...`},
	} {
		if got := Show(tt.name, tt.limit); got != tt.want {
			t.Errorf("Show(%q, %d) = %s, want %s", tt.name, tt.limit, got, tt.want)
		}
	}
}

func TestSpans(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines int
		want  string
	}{
		{"features.0", 2, "`features.0`"},
		{"encoder.layer.6.attention.dense", 2, "`encoder.layer.6.`<br>`attention.dense`"},
		{"abcdefghijklmnopqrstuvwxyz", 2, "`abcdefghijklmnop`<br>`qrstuvwxyz`"},
		{"a.cdefghijklmnopqrstuvwxyz", 2, "`a.cdefghijklmnop`<br>`qrstuvwxyz`"}, // not a short first line
		{"features.0.aaaaaaaaaaa.bbbbb.cc", 2, "`features.0.aaaaa`<br>`aaaaaa.bbbbb.cc`"},
		{"features.0.aaaaaaaaaaa.bbbbb.cc", 3, "`features.0.`<br>`aaaaaaaaaaa.`<br>`bbbbb.cc`"},
		{strings.Repeat("0123456789", 9), 2, "`012345678...0123`<br>`4567890123456789`"},
		{"a|b` <x>", 2, "`\"a\\x7cb\\x60 <x>\"`"},
		{"", 1, "`\"\"`"},
	} {
		got := Spans(tt.name, 16, tt.lines)
		if got != tt.want {
			t.Errorf("Spans(%q, 16, %d) = %s, want %s", tt.name, tt.lines, got, tt.want)
		}
		for part := range strings.SplitSeq(got, "<br>") {
			if len(part) > 16+2 {
				t.Errorf("Spans(%q, 16, %d) has the line %s", tt.name, tt.lines, part)
			}
		}
	}
}

func FuzzShow(f *testing.F) {
	for _, s := range []string{"", "a", "conv1.weight", "a|b", "`", "##[", "#", "##", "\x00", "\xff", "\u202e", `"`, `\`,
		`\x7c`, "\\|", "::set-output"} {
		f.Add(s, 10)
	}
	f.Fuzz(func(t *testing.T, name string, limit int) {
		shown := Show(name, 0)
		for i := range len(shown) {
			if c := shown[i]; c < ' ' || c > '~' || c == '|' || c == '`' {
				t.Fatalf("Show(%q) = %q has byte %#x", name, shown, c)
			}
		}
		if strings.Contains(shown, "##[") {
			t.Fatalf("Show(%q) = %q is a command to a CI runner", name, shown)
		}
		back := shown
		if strings.HasPrefix(shown, `"`) {
			var err error
			if back, err = strconv.Unquote(shown); err != nil {
				t.Fatalf("Show(%q) = %q: %v", name, shown, err)
			}
		}
		if back != name {
			t.Fatalf("Show(%q) = %q, which stands for %q", name, shown, back)
		}
		limit = 8 + (limit&0xff+0xff)%0xff
		if cut := Show(name, limit); len(cut) > limit || cut != shown && !strings.HasSuffix(cut, "...") {
			t.Fatalf("Show(%q, %d) = %q", name, limit, cut)
		}
		spans := strings.Split(Spans(name, limit, 3), "<br>")
		for _, s := range spans {
			if inner := s[1 : len(s)-1]; len(spans) > 3 || s[0] != '`' || s[len(s)-1] != '`' || inner == "" ||
				len(inner) > limit || strings.Contains(inner, "`") {
				t.Fatalf("Spans(%q, %d, 3) = %q", name, limit, spans)
			}
		}
	})
}
