package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"

	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// tricks are what a name may try to be in a terminal, a log, a table or a page.
var tricks = []string{
	"</details>", "<img src=x onerror=alert(1)>", "|a|b|", "`code` and ``more``", "[click](http://evil.example)",
	"![](http://evil.example/x.png)", "@team #1 GH-1",
	"\n| x | y |\n", "\r\n\r\n# title\n", "::error file=x::y", "##[group]x", "<!-- memestimate -->",
	"\n<!-- memestimate -->\n", "\x1b[2J\x1b]0;evil\x07", "\u202egnp.exe\u200b", "=1+1", "https://evil.example",
	"\xff\xfe", "a\\|b", "{{.Token}}",
}

// hostileNetwork is a chain of n layers whose names are each more than 300 bytes of tricks; the widths of all differ
// with the seed.
func hostileNetwork(n, width int) []byte {
	g := Graph{In: []Value{Float("input|`x`\n", "batch", width)}}
	at := g.In[0].Name
	for i := range n {
		name := fmt.Sprintf("%s%d%s", tricks[i%len(tricks)], i,
			strings.Repeat(tricks[(i+7)%len(tricks)]+"long", 300/(len(tricks[(i+7)%len(tricks)])+4)))
		out := "out of " + name
		if i%2 == 0 {
			weight := Bare(name+".weight", onnxload.Float32, int64(width), int64(width))
			g.Inits = append(g.Inits, weight)
			g.Nodes = append(g.Nodes, Node{Op: "Gemm", Name: name, In: []string{at, weight.Name}, Out: []string{out},
				Attrs: []Attr{A("transB", int64(1))}})
		} else {
			g.Nodes = append(g.Nodes, Node{Op: "Relu", Name: name, In: []string{at}, Out: []string{out}})
		}
		at = out
	}
	g.Out = []Value{{Name: at}}
	return Model{Opset: 17, Producer: "<b>|`", Graph: g}.Bytes()
}

// A model of 5,000 layers whose names are long and hostile: whatever is posted of it is within GitHub's limits, its
// tables are tables, and no name is more than a name.
func TestHostileModelInAPullRequest(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	dir := t.TempDir()
	t.Chdir(dir)
	const file = "nets/@team |x| `y` <b>.onnx"
	before, after := hostileNetwork(5000, 64), hostileNetwork(5000, 72)
	write(t, file, string(before))
	write(t, "base.onnx", string(before))
	write(t, "memestimate.yaml", "settings: {batch: 8}\nlimits: {growth: 1%}\nmodels: nets/*.onnx\n")
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "base")
	write(t, file, string(after))

	summary := filepath.Join(dir, "summary.md")
	for _, tt := range []struct {
		args   []string
		most   int // characters
		tables int
		code   int
	}{
		{[]string{file, "--batch", "2", "--format", "markdown"}, forge.MaxComment, 7, exitOK},
		{[]string{"table", file, "--batch", "2", "--format", "markdown"}, forge.MaxComment, 1, exitOK},
		{[]string{"diff", "base.onnx", file, "--batch", "2", "--format", "markdown"}, forge.MaxComment, 2, exitOK},
		{[]string{"diff", "base.onnx", file, "--batch", "1,2", "--format", "markdown"}, forge.MaxComment, 3, exitOK},
		{[]string{"check", "--format", "markdown"}, forge.MaxComment, 1, exitNo},
		{[]string{"comment", "--base", "HEAD"}, forge.MaxComment, 3, exitNo},
	} {
		stdout, stderr, code := try(t, tt.args...)
		if n := utf8.RuneCountInString(stdout); code != tt.code || n > tt.most || n < 200 {
			t.Errorf("%q: code %d, %d characters, want %d and %d at most: %s", tt.args, code, n, tt.code, tt.most, stderr)
		}
		if n := harmless(t, stdout); n != tt.tables {
			t.Errorf("%q: %d tables, want %d", tt.args, n, tt.tables)
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "memestimate: ") {
				t.Errorf("%q: stderr has the line %q", tt.args, line)
			}
		}
	}

	// The summary has more room, and keeps to its own limit.
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	e := &env{stdin: strings.NewReader(""), stdout: os.Stdout, stderr: &strings.Builder{}, getenv: os.Getenv}
	c := commenting{checking: checking{config: "memestimate.yaml", base: "HEAD"}}
	out, err := c.run(e, true, &output{})
	if err != nil || out.Err != nil {
		t.Fatal(err, out.Err)
	}
	for range 3 { // steps of a job add to one file
		must.OK(t, c.publish(t.Context(), e, out))
	}
	data, err := os.ReadFile(summary)
	if err != nil || len(data) > forge.MaxSummary || len(data) < forge.MaxComment {
		t.Errorf("a summary of %d bytes, want %d to %d: %v", len(data), forge.MaxComment, forge.MaxSummary, err)
	}
	harmless(t, string(data))
}

// The name of a branch is a name, in the comment and in the log, whatever git lets it be.
func TestHostileBranchInAPullRequest(t *testing.T) {
	y := newYard(t)
	y.put("nets/net.onnx", "inserted")
	for _, name := range []string{"a`|<img/src=x/onerror=alert(1)>|`b", "</details>@team",
		"![](http://evil.example/x.png)x", "\u202egnp.exe", "{{.Token}}", "--help", "$(id)", "a;b&c", "::error::x"} {
		if strings.ContainsAny(name, "^~:?*[\\ ") || strings.HasPrefix(name, "-") { // which git does not let be
			name = "refs/heads/" + name
		} else {
			y.git("update-ref", "refs/heads/"+name, "HEAD")
		}
		var out, errs strings.Builder
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		code := run(t.Context(), e, []string{"comment", "-c", y.path("memestimate.yaml"), "--annotate", "--base", name})
		if code == exitOK || out.Len() < 100 {
			t.Errorf("%s: code %d\n%s", name, code, errs.String())
		}
		harmless(t, out.String())
		for line := range strings.Lines(errs.String()) {
			if !strings.HasPrefix(line, "memestimate: ") && !strings.HasPrefix(line, "::error file=") {
				t.Errorf("%s: stderr has the line %q", name, line)
			}
		}
	}
}

// harmless counts the tables of a comment as GitHub renders it, and tells of anything that a name became.
func harmless(t *testing.T, markdown string) (tables int) {
	t.Helper()
	source := []byte(markdown)
	acts := regexp.MustCompile("@[A-Za-z0-9]|[`<]") // "attn @ v" mentions nobody
	allowed := regexp.MustCompile(`^(<details><summary>(<code>[^<>]*</code>)?[\w ,.:-]*</summary>|</details>|<!-- ` +
		`memestimate -->)\s*$`)
	err := ast.Walk(goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source)),
		func(n ast.Node, entering bool) (ast.WalkStatus, error) {
			if !entering {
				return ast.WalkContinue, nil
			}
			switch n := n.(type) {
			case *ast.Link:
				if string(n.Destination) != "https://github.com/memestimate/memestimate/blob/main/docs/pull-requests.md#the-comment" {
					t.Errorf("a name became a link to %s", n.Destination)
				}
			case *ast.RawHTML:
				if html := string(n.Segments.Value(source)); html != "<br>" {
					t.Errorf("a name became %s", html)
				}
			case *ast.AutoLink, *ast.Image:
				t.Errorf("a name became a %s", n.Kind())
			case *ast.HTMLBlock:
				for line := range strings.Lines(string(n.Lines().Value(source))) {
					if !allowed.MatchString(line) {
						t.Errorf("a name became HTML: %q", line)
					}
				}
			case *east.Table:
				tables++
				columns := n.FirstChild().ChildCount()
				for row := n.FirstChild(); row != nil; row = row.NextSibling() {
					if row.ChildCount() != columns {
						t.Errorf("a row of %d cells among %d", row.ChildCount(), columns)
					}
				}
			case *ast.Text:
				// The marks of a table of phases point at its peak.
				if s := strings.TrimPrefix(string(n.Segment.Value(source)), "<-"); n.Parent().Kind() != ast.KindCodeSpan &&
					acts.MatchString(s) {
					t.Errorf("text outside a code span: %q", s)
				}
			}
			return ast.WalkContinue, nil
		})
	must.OK(t, err)
	for i, line := range strings.Split(markdown, "\n") {
		if strings.HasPrefix(line, "<!-- memestimate") && i != 0 {
			t.Errorf("line %d is a marker", i+1)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("line %d has a control character: %q", i+1, line)
		}
	}
	return tables
}

// copiesOfViews is a chain of n views, each of which says that it read a copy that is not there.
func copiesOfViews(n int) []byte {
	g := Graph{In: []Value{Float("x0", 4, 4)}, Out: []Value{{Name: fmt.Sprint("x", n)}},
		Inits: []Tensor{{Name: "s", DType: onnxload.Int64, Dims: []int64{2}, Typed: []int64{4, 4}}}}
	for i := range n {
		view := Op("Reshape", fmt.Sprintf("x%d s", i), fmt.Sprint("x", i+1))
		view.Meta = []onnxload.Entry{{Key: "pkg.torch.onnx.fx_node", Value: fmt.Sprintf("%%v : [num_users=1] = "+
			"call_function[target=torch.ops.aten.view.default](args = (%%clone_%d, [4, 4]), kwargs = {})", i)}}
		g.Nodes = append(g.Nodes, view)
	}
	return Model{Opset: 17, Graph: g}.Bytes()
}

// actsOnTerminals returns where a character is that does more than show in a terminal, or -1.
func actsOnTerminals(s string) int {
	return strings.IndexFunc(s, func(r rune) bool {
		return r != '\n' && (unicode.IsControl(r) || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069)
	})
}
