package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"
	goldhtml "github.com/yuin/goldmark/renderer/html"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/diff"
	"github.com/memestimate/memestimate/test/chromium"
	"github.com/memestimate/memestimate/test/must"
)

// commentColumn is how wide a comment is on GitHub, in pixels.
const commentColumn = 746

// measure has a browser lay out Markdown as GitHub does, all folds open, and returns how many tables it has and which
// are wider than their column. The page is written to COMMENT_PAGES, a folder, for people to look at.
func measure(t *testing.T, name, markdown string) (tables int, wide string) {
	t.Helper()
	browser := chromium.Path(t)
	css := must.Read(t, "testdata/github/markdown.css")
	var page bytes.Buffer
	fmt.Fprintf(&page, "<!DOCTYPE html><meta charset=utf-8><title>x</title><style>%s</style><body "+
		"style='margin:0'><article class=markdown-body style='width:%dpx;font-size:14px'>", css, commentColumn)
	if err := goldmark.New(goldmark.WithExtensions(extension.GFM),
		goldmark.WithRendererOptions(goldhtml.WithUnsafe())).Convert([]byte(markdown), &page); err != nil {
		t.Fatal(err)
	}
	folded := page.String()
	page.WriteString(`</article><script>
for (const d of document.querySelectorAll('details')) d.open = true;
const all = [...document.querySelectorAll('table, pre, p, li')], tables = document.querySelectorAll('table').length;
const wide = all.filter(t => t.scrollWidth > t.clientWidth + 1 && t.clientWidth > 0 || t.getBoundingClientRect().right > ` + fmt.Sprint(commentColumn) + ` + 1).map(t => t.scrollWidth + ': ' + t.textContent.slice(0, 60).replace(/\s+/g, ' '));
document.title = 'measured ' + tables + ' tables; wide: ' + wide.join(' / ');
</script>`)
	dir := t.TempDir()
	path := filepath.Join(dir, "page.html")
	must.Write(t, path, page.Bytes())
	if kept := os.Getenv("COMMENT_PAGES"); kept != "" {
		for suffix, text := range map[string]string{"-folded.html": folded, ".html": page.String(), ".md": markdown} {
			must.Write(t, filepath.Join(kept, name+suffix), []byte(text))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+path).Output()
	if err != nil {
		t.Skipf("the browser does not run: %v", err)
	}
	_, rest, ok := strings.Cut(string(out), "<title>measured ")
	if _, err := fmt.Sscanf(rest, "%d tables", &tables); !ok || err != nil {
		t.Fatalf("nothing is measured: %.200s", out)
	}
	_, rest, _ = strings.Cut(rest, "wide: ")
	wide, _, _ = strings.Cut(rest, "</title>")
	return tables, wide
}

// How much of a comment stands open does not grow with the models that are within their limits, and each row tells
// which model it is of.
func TestCommentFolds(t *testing.T) {
	o := changedModels(60)
	body := o.Comment(CommentRoom, false)
	open := regexp.MustCompile(`(?s)<details>.*?</details>`).ReplaceAllString(body, "")
	if ok := strings.Count(open, "\n| ok |"); ok != openRows || strings.Count(open, "\n| **over** |") != 40 {
		t.Errorf("%d rows that are ok stand open, want %d:\n%s", ok, openRows, open)
	}
	if items := strings.Count(open, "\n- "); items != 3*openItems {
		t.Errorf("%d items stand open, want %d", items, 3*openItems)
	}
	whole := strings.ReplaceAll(body, "`<br>`", "")
	for i := range o.Models {
		if want := fmt.Sprintf("| `network_number_%d_of_the_large_family.onnx`<br>batch 1024, ", i); i < 30 && i%7 != 6 &&
			!strings.Contains(whole, want) {
			t.Errorf("no row begins with %s", want)
		}
	}
	moved := ": the peak moves from `model.encoder.layers.7.self_attention.output.dense` to `"
	if !strings.Contains(body, moved) {
		t.Errorf("no note says %q", moved)
	}
	if !strings.Contains(body, "<summary>55 more</summary>") || !strings.Contains(body, " more of these</summary>") {
		t.Error("the folds do not say how much is in them")
	}
}

// changedModels makes models with long names and large figures, of which each third is over its limit, and each
// seventh is as it was.
func changedModels(n int) *Outcome {
	o := &Outcome{Config: "memestimate.yaml", when: time.Unix(1e9, 0),
		base: &base{rev: "origin/a-branch-with-a-rather-long-name", commit: strings.Repeat("a", 40),
			head: strings.Repeat("b", 40)}}
	report := func(extra int64, layers int) *estimate.Report {
		r := &estimate.Report{Peak: &estimate.Peak{Device: 1023<<30 + extra,
			Layer: fmt.Sprintf("model.encoder.layers.%d.self_attention.output.dense", extra%50)}}
		for i := range layers {
			r.Layers = append(r.Layers, module.Layer{
				Name: fmt.Sprintf("/model/encoder/layers.%d/self_attention/output/dense/MatMul",
					i), Module: fmt.Sprintf("model.encoder.layers.%d.self_attention.output.dense", i),
				Op: "MultiHeadScaledDotProductAttentionWithBias", Params: 1<<36 + extra, ParamBytes: 1<<38 +
					extra, Activation: 1<<40 + extra, SavedBytes: 1<<40 + extra,
				Outputs: []module.Tensor{{DType: "float32", Shape: []int64{1024, 4096, 4096, 4096 + extra}}},
			})
		}
		return r
	}
	for i := range n {
		c := &Model{Name: fmt.Sprintf(
			"models/production/some_rather_long_folder_name/network_number_%d_of_the_large_family.onnx", i),
			Entry: &budget.Model{}}
		c.past = past{state: isChanged, name: c.Name}
		if i%7 == 6 {
			c.past.state = isSame
		}
		for k := range 2 {
			x := Case{Label: fmt.Sprintf("batch %d, train, amp-bf16, adamw-fused-amsgrad, rtx-pro-6000-blackwell",
				1024*(k+1)), Head: report(1<<39, 12), Base: report(7, 10)}
			most := int64(1020 << 30)
			over := i%3 == 0
			x.Lines = []budget.Line{
				{Model: c.Name, Settings: x.Label, Total: diff.Device, Value: 1534 << 30, Before: &most, Limit: &most,
					LimitText: "+12.75%", Over: over},
				{Model: c.Name, Settings: x.Label, Total: diff.Reserved, Value: 1034 << 30, Before: &most, Limit: &most,
					LimitText: "1020.00 GiB", Over: over, Note: "out of memory in the backward of step 1"},
			}
			c.Cases = append(c.Cases, x)
		}
		if i%11 == 10 {
			c.Err = fmt.Errorf("%s: the tensor %s is of %d bytes, want at most %d", c.Name,
				strings.Repeat("name.", 40), 1<<40, 1<<30)
		}
		o.Models = append(o.Models, c)
		o.removed = append(o.removed, Removal{Model: c.Name, Why: "deleted"})
		o.asks = append(o.asks, budget.Change{What: "clip-grad-norm", Before: strings.Repeat("h100-80gb; ", 12),
			After: "64.00 GiB", Models: []string{c.Name, "b"}})
	}
	return o
}

// At the width that a comment has on GitHub nothing needs to be scrolled sideways, however many models change.
func TestCommentWidth(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 10, 100} {
		body := changedModels(n).Comment(CommentRoom, true)
		tables, wide := measure(t, fmt.Sprintf("changed-%d", n), body)
		if wide != "" || tables < 3 {
			t.Errorf("%d models: %d tables, too wide: %s", n, tables, wide)
		}
	}
	var hostile strings.Builder
	hostile.WriteString((&Outcome{Models: manyChecked(40, 30), when: time.Unix(1e9, 0)}).Comment(CommentRoom, true))
	if _, wide := measure(t, "hostile", hostile.String()); wide != "" {
		t.Errorf("hostile names: too wide: %s", wide)
	}
	failed := &Outcome{Config: "memestimate.yaml", when: time.Unix(1e9, 0),
		Err: &hinted{fmt.Errorf("memestimate.yaml:3: path %q: no such file, and no built-in model of that name",
			strings.Repeat("models/", 40)), "memestimate models lists the built-in ones"}}
	if _, wide := measure(t, "failed", failed.Comment(CommentRoom, true)); wide != "" {
		t.Errorf("an error: too wide: %s", wide)
	}
}

// manyChecked makes models with hostile names, of which most changed in many layers and some are over their limits.
func manyChecked(n, layers int) (out []*Model) {
	made := func(extra int64) *estimate.Report {
		r := &estimate.Report{Peak: &estimate.Peak{Device: 1000 + extra}, Coverage: estimate.Coverage{}}
		for i := range layers {
			name := fmt.Sprintf("<b>|@team `%d` %s", i, strings.Repeat("n", i%200))
			r.Layers = append(r.Layers, module.Layer{Name: name, Op: name, Params: int64(i) + extra,
				Outputs: []module.Tensor{{DType: "float32", Shape: []int64{int64(i)}}}})
		}
		return r
	}
	for i := range n {
		c := &Model{Name: fmt.Sprintf("nets/|<!-- memestimate -->\n%d.onnx", i), Entry: &budget.Model{}}
		c.past = past{state: []string{isChanged, isChanged, isSame, isNew}[i%4], name: c.Name}
		if i%9 == 8 {
			c.Err = errors.New("broken")
		}
		limit := int64(i % 3)
		x := Case{Label: "batch 1", Head: made(5)}
		if c.past.state != isNew {
			x.Base = made(0)
		}
		x.Lines = []budget.Line{{Model: c.Name, Settings: x.Label, Total: diff.Device, Value: 1005, Limit: &limit,
			LimitText: "1 B", Over: i%3 == 1}}
		c.Cases = []Case{x}
		out = append(out, c)
	}
	return out
}

// A comment and a summary keep within what GitHub takes, with their folds closed, the outcome first, and the marker of
// the sticky comment nowhere at the beginning of a line.
func TestCommentFits(t *testing.T) {
	for _, n := range []int{0, 1, 5, 40, 500} {
		for _, layers := range []int{1, 300} {
			all := manyChecked(n, layers)
			for _, room := range []int{CommentRoom, SummaryRoom, 20_000, 100} {
				body := (&Outcome{Models: all, when: time.Unix(0, 0)}).Comment(room, true)
				if len(body) > room {
					t.Errorf("%d models of %d layers: %d bytes, want %d at most", n, layers, len(body), room)
				}
				if room == 100 {
					continue
				}
				if strings.Count(body, "\n<details>") != strings.Count(body, "\n</details>\n") {
					t.Errorf("%d models of %d layers, %d bytes: folds do not close", n, layers, room)
				}
				if !strings.HasPrefix(body, "### GPU memory: ") || strings.Contains(body, "\n<!-- memestimate") {
					t.Errorf("%.200q", body)
				}
				if n > 4 && !strings.Contains(body, " over budget") {
					t.Errorf("%d models: the outcome is not told: %.200q", n, body)
				}
			}
		}
	}
}
