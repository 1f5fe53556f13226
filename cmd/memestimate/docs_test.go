package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/budget"
)

// shownPages are the pages whose console examples are run.
var shownPages = []string{"getting-started.md", "exporting.md", "reading-the-table.md", "choosing-a-gpu.md"}

var figure = regexp.MustCompile(`[0-9][0-9,.]*|-{3,}| {2,}`)

// loosely takes figures for any figures: pages show real ones, which every better rule of the simulation changes.
func loosely(lines []string) (out []string) {
	for _, l := range lines {
		if l == "..." {
			out = append(out, l)
			continue
		}
		out = append(out, strings.TrimSpace(figure.ReplaceAllStringFunc(l, func(s string) string {
			if s[0] == ' ' {
				return " "
			}
			return "#"
		})))
	}
	return out
}

// refigure puts the lines of an output in place of those that are like them but for their figures.
func refigure(shown, got []string) {
	at := 0
	for i, l := range shown {
		if l == "..." {
			continue
		}
		like := loosely([]string{l})[0]
		k := slices.IndexFunc(got[at:], func(g string) bool { return loosely([]string{g})[0] == like })
		if k < 0 {
			return
		}
		shown[i] = got[at+k]
		at += k + 1
	}
}

// TestDocs runs the console examples of the documentation. -update-readme writes their figures anew.
func TestDocs(t *testing.T) {
	for _, page := range shownPages {
		path := filepath.Join("../../docs", page)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(data), "\n")
		examples := readmeExamples(lines)
		if len(examples) == 0 {
			t.Errorf("%s has no example", page)
		}
		for _, x := range examples {
			var out bytes.Buffer
			e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(string) string { return "" }}
			code := run(context.Background(), e, strings.Fields(x.command)[1:])
			got := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
			if code == exitBug || code == exitUsage && !strings.Contains(x.command, "gpt2") || !matches(loosely(x.output), loosely(got)) {
				t.Errorf("%s:%d: $ %s (exit code %d)\n%s\nwant\n%s", page, x.line, x.command, code, out.String(), strings.Join(x.output, "\n"))
				continue
			}
			refigure(lines[x.line:x.line+len(x.output)], got)
		}
		if *updateReadme {
			if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The index has every page, and every link in the pages leads somewhere.
func TestDocsIndex(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile("../../docs/README.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, page := range append(pages, "../../README.md") {
		name := filepath.Base(page)
		if !bytes.Contains(index, []byte("("+name+")")) && name != "README.md" && name != "gpus-transcript.md" {
			t.Errorf("docs/README.md does not name %s", name)
		}
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllSubmatch(data, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1]))); err != nil {
				t.Errorf("%s: link to %s: %v", name, m[1], err)
			}
		}
	}
}

// fenced returns the blocks of a page in this language.
func fenced(page, language string) (out []string) {
	for part := range strings.SplitSeq(page, "\n```"+language+"\n") {
		text, _, _ := strings.Cut(part, "\n```")
		out = append(out, text+"\n")
	}
	return out[1:]
}

// The commands of docs/pull-requests.md are run as they are written, in a repository with a model and
// its new export.
func TestDocsPullRequests(t *testing.T) {
	if _, err := exec.LookPath("bash"); err != nil || runtime.GOOS == "windows" {
		t.Skip("no bash")
	}
	data, err := os.ReadFile("../../docs/pull-requests.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	files := fenced(page, "yaml")
	f, err := budget.Parse("memestimate.yaml", []byte(files[0]))
	if err != nil || len(f.Models) != 1 {
		t.Fatal(err)
	}
	nets, dir := editedNetworks(t), t.TempDir()
	write(t, filepath.Join(dir, "memestimate.yaml"), files[0])
	copyFile(t, filepath.Join(nets, "base.onnx"), filepath.Join(dir, "models", "net.onnx"))
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "base")
	copyFile(t, filepath.Join(nets, "widened.onnx"), filepath.Join(dir, "models", "net.onnx"))
	copyFile(t, filepath.Join(nets, "inserted.onnx"), filepath.Join(dir, "new.onnx"))
	var all strings.Builder
	for _, block := range fenced(page, "sh") {
		cmd := exec.Command("bash", "-eo", "pipefail", "-c", block)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		all.Write(out)
		if err != nil {
			t.Errorf("%v\n%s\n%s", err, block, out)
		}
	}
	for _, want := range []string{"layers: 4 changed, 11 the same", "layers: 6 added", "optimizer state", "Within budget.", "<!-- memestimate -->", "growth"} {
		if !strings.Contains(all.String()+page, want) {
			t.Errorf("%q is nowhere in\n%s", want, all.String())
		}
	}
	if !strings.Contains(files[1], "permissions:\n  contents: read\n  pull-requests: write\njobs:") {
		t.Error("the workflow has other permissions than it needs")
	}
	if !slices.ContainsFunc(files, func(s string) bool { return strings.Contains(s, "- id: memestimate\n") }) {
		t.Error("no entry for pre-commit")
	}
}
