package budget

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

var update = flag.Bool("update", false, "write the schema and the table of keys anew")

const everything = `version: 1
base: origin/main
settings: {batch: 8}
limits: {device: 24GiB}
models:
  - resnet18
  - path: [models/**/*.onnx, extra.onnx]
    exclude: models/old/*
    settings:
      - batch: [1, 32]
        precision: [fp32, amp-bf16]
        dim: {sequence: 128}
        input: {x: 8x3}
        channels-last: true
      - mode: infer
        batch: 1
    limits:
      device: 10 GB
      reserved: 9GiB
      allocated: 800000000 B
      parameters: 1MiB
      growth: 5%
      fits: [h100-80gb, t4]
`

func TestParse(t *testing.T) {
	f, err := Parse("memestimate.yaml", []byte(everything))
	must.OK(t, err)
	if f.Base != (Value{"origin/main", 2}) || len(f.Models) != 2 {
		t.Fatalf("%+v", f)
	}
	a, b := f.Models[0], f.Models[1]
	if a.Paths[0].Text != "resnet18" || a.Line != 6 || a.Limits.Sizes[0].Bytes != 24<<30 ||
		a.Settings[0][0].Values[0] != "8" {
		t.Errorf("%+v does not have the settings and limits of the file", a)
	}
	if len(b.Settings) != 2 || len(b.Settings[0]) != 5 || !slices.Equal(b.Settings[0][0].Values, []string{"1", "32"}) ||
		!slices.Equal(b.Settings[0][2].Values, []string{"sequence=128"}) {
		t.Errorf("%+v", b.Settings)
	}
	if l := b.Limits; len(l.Sizes) != 4 || l.Sizes[0] != (SizeLimit{diff.Device, 10_000_000_000, 18}) ||
		l.Growth.Percent != 5 || l.Growth.Line != 22 || len(l.Fits) != 2 || l.Fits[1].Text != "t4" {
		t.Errorf("%+v", l)
	}
}

func TestParseErrors(t *testing.T) {
	for _, tt := range []struct{ text, want, key string }{
		{"", `b.yaml: is empty`, ""},
		{"models: [resnet18]\nlimts: {}",
			`b.yaml:2: the file has no key "limts", want one of version, base, settings, limits, models`, "limts"},
		{"models:\n  - path: a\n    limits:\n      devise: 8", `b.yaml:4: limits has no key "devise"`, "devise"},
		{"models:\n  - settings: {}", `b.yaml:2: a model has no "path"`, ""},
		{"limits: {}", `has no "models"`, ""},
		{"models: []", `models is an empty list`, ""},
		{"models: [a]\nmodels: [b]", `b.yaml:2: the file has the key "models" twice`, ""},
		{"models: a\nlimits: {device: lots}", `b.yaml:2: device: "lots" is not a size such as 24GiB`, ""},
		{"models: a\nlimits: {growth: fast}", `b.yaml:2: growth: "fast" is neither a share`, ""},
		{"models: a\nlimits: [1]", `b.yaml:2: limits is a list, want a mapping`, ""},
		{"models: a\nlimits: {confidence: saef}", `b.yaml:2: confidence is "saef", want predicted, likely, safe`, "saef"},
		{"models: a\nlimits: {device: [1GiB, 2GiB]}", `device is a list, want one value`, ""},
		{"models: a\nsettings: {batch: []}", `batch is an empty list`, ""},
		{"models: a\nsettings: {batch: }", `batch is empty, want a value`, ""},
		{"models: a\nsettings: {batch: 1, batch_size: 2}", `settings has the key "batch" twice`, ""},
		{"models: a\nsettings: {dim: {a: [1]}}", `dim: "a" is a list, want a value`, ""},
		{"models: a\nsettings: &x {batch: 1}\nlimits: *x", `is an anchor or an alias`, ""},
		{"version: 2\nmodels: a", `b.yaml:1: version is "2", want 1`, ""},
		{"models: a\n---\nmodels: b", `a second document`, ""},
		{"models: [a", `b.yaml:1: did not find`, ""},
		{"\x00", `b.yaml: `, ""},
		{"- a", `the file is a list, want a mapping`, ""},
		{strings.Repeat("[", 100_000), "b.yaml", ""},
		{strings.Repeat("#", MaxSize+1), "bytes, want", ""},
	} {
		_, err := Parse("b.yaml", []byte(tt.text))
		var at *Error
		if !errors.As(err, &at) || !strings.Contains(err.Error(), tt.want) || at.Key != tt.key {
			t.Errorf("%.60q: %v, want %q", tt.text, err, tt.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(everything))
	f.Add([]byte("models: [{path: a, settings: [{batch: 1}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Parse("b.yaml", data)
		if err == nil && (len(b.Models) == 0 || len(b.Models[0].Settings) == 0) {
			t.Error("a file without models or settings passes")
		}
	})
}

func TestFind(t *testing.T) {
	fsys := fstest.MapFS{}
	for _, name := range []string{"a.onnx", "models/b.onnx", "models/c.txt", "models/deep/er/d.onnx", ".git/e.onnx",
		"models/.cache/f.onnx", "x[1].onnx"} {
		fsys[name] = &fstest.MapFile{}
	}
	for _, tt := range []struct{ glob, want string }{
		{"a.onnx", "a.onnx"},
		{"./a.onnx", "a.onnx"},
		{"*.onnx", "a.onnx x[1].onnx"},
		{"models/*.onnx", "models/b.onnx"},
		{"**/*.onnx", "a.onnx models/b.onnx models/deep/er/d.onnx x[1].onnx"},
		{"models/**", "models/b.onnx models/c.txt models/deep/er/d.onnx"},
		{"models/**/**/d.onnx", "models/deep/er/d.onnx"},
		{"m*/[ab].onnx", "models/b.onnx"},
		{"nothere/*.onnx", ""},
	} {
		got, err := Find(fsys, tt.glob)
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %q, %v, want %q", tt.glob, got, err, tt.want)
		}
	}
	for _, bad := range []string{"[", "nothere.onnx"} {
		if got, err := Find(fsys, bad); err == nil {
			t.Errorf("%s: %q", bad, got)
		}
	}
}

func TestJudge(t *testing.T) {
	made := func(device int64) *estimate.Report {
		return &estimate.Report{
			Parameters: module.Tensors{Bytes: 40},
			Peak:       &estimate.Peak{Allocated: device - 20, Reserved: device - 10, Device: device},
		}
	}
	over := func(lines []Line) (out []bool) {
		for _, l := range lines {
			out = append(out, l.Over)
		}
		return out
	}
	l := Limits{
		Sizes:  []SizeLimit{{diff.Device, 100, 1}, {diff.Reserved, 95, 2}, {diff.Allocated, 79, 3}, {diff.Parameters, 40, 4}},
		Growth: &GrowthLimit{Growth{Percent: 10, Share: true}, 5},

		Confidence: estimate.Predicted,
	}
	for _, tt := range []struct {
		head, base int64
		want       []bool
	}{
		{100, 100, []bool{false, false, true, false, false}},
		{99, 90, []bool{false, false, false, false, false}},
		{99, 89, []bool{false, false, false, false, true}},
		{101, 0, []bool{true, false, true, false, true}}, // from nothing, and nobody said that it is new
	} {
		var base *estimate.Report
		if tt.base > 0 {
			base = made(tt.base)
		}
		if got := over(l.Judge("m", "", made(tt.head), Standing{Base: base, Why: "no base"})); !slices.Equal(got, tt.want) {
			t.Errorf("%d after %d: %v, want %v", tt.head, tt.base, got, tt.want)
		}
	}
	for _, x := range l.Judge("m", "", made(101), Standing{Why: "no base", New: true}) {
		if x.LimitText == "+10%" && (x.Over || !strings.Contains(x.Note, "new: nothing to grow from")) {
			t.Errorf("a model that may be new: %+v", x)
		}
	}
	same := made(90)
	unknown := made(0)
	unknown.Peak = nil
	if got := over(l.Judge("m", "", unknown, Standing{Base: same})); !slices.Equal(got,
		[]bool{true, true, true, false, true}) {
		t.Errorf("a run that was not simulated: %v", got)
	}
	died := made(50)
	died.OOM = &estimate.OOM{Phase: "forward"}
	if got := over(l.Judge("m", "", died, Standing{Base: same})); !slices.Equal(got,
		[]bool{true, true, true, false, true}) {
		t.Errorf("a run that died before its peak: %v", got)
	}
	partial := made(50)
	partial.Coverage = estimate.Coverage{Nodes: 2, Modelled: 1,
		Unmodelled: []estimate.Unmodeled{{Op: "Mystery", Count: 1}}}
	if got := over(l.Judge("m", "", partial, Standing{Base: same})); slices.Contains(got, false) {
		t.Errorf("a lower bound passes: %v", got)
	}
	accepted := l.Judge("m", "", partial, Standing{Base: same, LowerBound: true})
	if slices.Contains(over(accepted), true) || accepted[0].Note != "a lower bound: Mystery is not modelled" {
		t.Errorf("a lower bound that the entry accepts: %+v", accepted)
	}
	if got := (Limits{}).Judge("m", "", partial, Standing{}); len(got) != 1 || got[0].Value != 50 || got[0].Over {
		t.Errorf("without limits: %+v", got)
	}
	gpu := Value{"t4", 9}
	limits := Limits{Confidence: estimate.Predicted}
	if limits.JudgeFit("m", "", gpu, 100, made(100), false).Over ||
		!limits.JudgeFit("m", "", gpu, 99, made(100), false).Over {
		t.Error("fits is wrong about 100 bytes")
	}
	sure := made(100)
	sure.Peak.Likely, sure.Peak.Safe = 110, 120
	needs := map[estimate.Confidence]int64{"": 120, estimate.Safe: 120, estimate.Likely: 110, estimate.Predicted: 100}
	for c, need := range needs {
		at := Limits{Sizes: []SizeLimit{{diff.Device, need, 1}}, Confidence: c}
		enough, fits := at.Judge("m", "", sure, Standing{})[0], at.JudgeFit("m", "", gpu, need, sure, false)
		at.Sizes[0].Bytes--
		short := at.Judge("m", "", sure, Standing{})[0]
		tight := at.JudgeFit("m", "", gpu, need-1, sure, false)
		if enough.Over || fits.Over || !short.Over || enough.Value != need || !tight.Over {
			t.Errorf("with confidence %q: %+v, %+v, %+v, want %d bytes to be enough", c, enough, fits, short, need)
		}
	}
	if !limits.JudgeFit("m", "", gpu, 100, died, false).Over ||
		!limits.JudgeFit("m", "", gpu, 100, partial, false).Over ||
		limits.JudgeFit("m", "", gpu, 100, partial, true).Over {
		t.Error("a run that died fits, or a lower bound does")
	}
}

func TestGrowth(t *testing.T) {
	for _, tt := range []struct {
		text          string
		before, after int64
		want          bool
	}{
		{"5%", 1000, 1050, true},
		{"5%", 1000, 1051, false},
		{"0%", 1000, 1000, true},
		{"0%", 1000, 1001, false},
		{"0", 1000, 1001, false},
		{"50B", 1000, 1050, true},
		{"1KiB", 1000, 2025, false},
		{"2.5 %", 1000, 1025, true},
		{"5%", 1000, 10, true},
		{"8EiB", 1, 1, false},
		{"100%", math.MaxInt64, math.MaxInt64, true},
	} {
		g, err := ParseGrowth(tt.text)
		if err != nil {
			if tt.text != "8EiB" {
				t.Errorf("%q: %v", tt.text, err)
			}
			continue
		}
		if got := g.Allows(tt.before, tt.after); got != tt.want {
			t.Errorf("%s from %d to %d: %v", tt.text, tt.before, tt.after, got)
		}
	}
	for _, bad := range []string{"", "%", "-5%", "NaN%", "many", "-1", "5 percent", "50"} {
		if g, err := ParseGrowth(bad); err == nil {
			t.Errorf("%q is %v", bad, g)
		}
	}
}

// TestTable holds the table of keys in the documentation to those that the parser has.
func TestTable(t *testing.T) {
	keys := testfile.Between(t, "../../docs/pull-requests.md", "<!-- keys -->\n", "<!-- end of keys -->")
	if *update {
		keys.Write(t, keyTable())
	} else if keys.Text != keyTable() {
		t.Error("the table of keys in docs/pull-requests.md is out of date: go test ./gate/budget -update")
	}
}

// keyTable returns the keys as Markdown tables, one for each mapping.
func keyTable() string {
	var b strings.Builder
	for _, t := range []struct {
		title string
		keys  []Key
	}{{"The file", FileKeys}, {"An entry of `models`", modelKeys}, {"`limits`", limitKeys}} {
		fmt.Fprintf(&b, "%s:\n\n| key | value | meaning |\n|---|---|---|\n", t.title)
		for _, k := range t.keys {
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", k.Name, valueOf(k), strings.ReplaceAll(k.Doc, "*", `\*`))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func valueOf(k Key) string {
	s := map[kind]string{
		text: "text", texts: "text, or a list", yesno: "`true` or `false`", number: "whole number",
		amount: "size such as `24GiB`", growth: "`5%` or a size", nested: "mapping", list: "mapping, or a list",
		settings: "mapping, or a list",
	}[k.Kind]
	if k.Enum != nil {
		s = "`" + strings.Join(k.Enum, "`, `") + "`"
	}
	return s
}
