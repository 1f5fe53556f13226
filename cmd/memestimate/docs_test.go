package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate/shape"
	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/test/must"
)

// shownPages are the pages whose console examples are run.
var shownPages = []string{"README.md", "docs/graphs.md"}

// asShown runs a command as the pages show it: on a terminal of 112 columns without colours, in the repository.
func asShown(command string) (output []string, code int) {
	var out bytes.Buffer
	terminal := map[string]string{"COLUMNS": "112", "NO_COLOR": "1"}
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, terminal: true,
		getenv: func(name string) string { return terminal[name] }}
	code = run(context.Background(), e, strings.Fields(command)[1:])
	return strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), code
}

// TestDocs runs the console examples of the README and of the documentation: what they show is what the program
// prints, to the letter. A line of three dots stands for any lines. -update-readme writes them anew.
func TestDocs(t *testing.T) {
	t.Chdir("../..") // where a reader tries them
	for _, path := range shownPages {
		data := must.Read(t, path)
		lines := strings.Split(string(data), "\n")
		examples := consoleExamples(lines)
		if len(examples) == 0 {
			t.Errorf("%s has no example", path)
		}
		for _, x := range slices.Backward(examples) { // so that line numbers stay true while updating
			got, code := asShown(x.command)
			if code == exitBug || code == exitUsage && !strings.Contains(x.command, "gpt2") {
				t.Errorf("%s:%d: $ %s: exit code %d\n%s", path, x.line, x.command, code, strings.Join(got, "\n"))
			}
			if matches(x.output, got) {
				continue
			}
			if *updateReadme {
				lines = slices.Replace(lines, x.line, x.line+len(x.output), renewed(x.output, got)...)
				continue
			}
			t.Errorf("%s:%d: $ %s\n%s\nwant\n%s", path, x.line, x.command, strings.Join(got, "\n"), strings.Join(x.output, "\n"))
		}
		if *updateReadme {
			must.Write(t, path, []byte(strings.Join(lines, "\n")))
		}
	}
}

// renewed is the output as an example shows it: where that leaves lines out, so many of the first and of the last ones.
func renewed(shown, got []string) []string {
	before := slices.Index(shown, "...")
	if before < 0 {
		return got
	}
	after := len(shown)
	for after > 0 && shown[after-1] != "..." {
		after--
	}
	after = len(shown) - after
	if before+after >= len(got) {
		return got
	}
	return slices.Concat(got[:before], []string{"..."}, got[len(got)-after:])
}

// Every command line in the documentation has a command and flags that there are.
func TestDocsCommands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	must.OK(t, err)
	lines := 0
	for _, page := range append(pages, "../../README.md") {
		data, err := os.ReadFile(page)
		must.OK(t, err)
		blocks := append(fenced(string(data), "sh"), fenced(string(data), "console")...)
		for _, m := range regexp.MustCompile("`(memestimate [^`\n]+)`").FindAllStringSubmatch(string(data), -1) {
			blocks = append(blocks, m[1])
		}
		for _, block := range blocks {
			for line := range strings.Lines(block) {
				line, found := strings.CutPrefix(strings.TrimPrefix(strings.TrimSpace(line), "$ "), "memestimate ")
				if !found || strings.HasSuffix(line, "\\") || strings.ContainsAny(line, "\"'<>|$&") ||
					strings.Contains(line, ": ") || strings.Contains(line, "...") {
					continue // what a shell does with it is not known here
				}
				line, _, _ = strings.Cut(line, " #")
				args := strings.Fields(line)
				root, args := commandFor(&env{}, args)
				if isMain(root) {
					root = rootCommand(&env{}, subcommands())
				}
				c, rest, err := root.Find(args)
				if err == nil {
					err = c.ParseFlags(rest)
				}
				if err == nil && c.Args != nil && len(c.Flags().Args()) > 0 {
					err = c.Args(c, c.Flags().Args())
				}
				if err != nil && !errors.Is(err, pflag.ErrHelp) {
					t.Errorf("%s: memestimate %s: %v", filepath.Base(page), line, err)
				}
				lines++
			}
		}
	}
	if lines < 50 {
		t.Errorf("only %d commands", lines)
	}
}

// The index has every page, and every link in the pages leads somewhere.
func TestDocsIndex(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	must.OK(t, err)
	index := must.Read(t, "../../docs/README.md")
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, page := range append(pages, "../../README.md") {
		name := filepath.Base(page)
		if !bytes.Contains(index, []byte("("+name+")")) && name != "README.md" {
			t.Errorf("docs/README.md does not name %s", name)
		}
		data := must.Read(t, page)
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
	data := must.Read(t, "../../docs/pull-requests.md")
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
		cmd.Env = append(os.Environ(), "CI=") // as a person runs them: in a job the base would have to be known
		out, err := cmd.CombinedOutput()
		all.Write(out)
		if err != nil {
			t.Errorf("%v\n%s\n%s", err, block, out)
		}
	}
	for _, want := range []string{"layers: 4 changed, 11 the same", "layers: 6 added", "optimizer state",
		"### GPU memory: within budget", "<!-- memestimate -->", "growth", "\n-features.3,Conv,", "\n+features.3,Conv,"} {
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

// docs/operators.md lists the operators that the tables have; -update-readme writes it anew.
func TestOperatorsPage(t *testing.T) {
	const path = "../../docs/operators.md"
	var want strings.Builder
	want.WriteString(strings.ReplaceAll(`# Operators

The ONNX operators whose shapes are known, with the versions from which their rows hold. This page is written by
'go test ./cmd/memestimate -run OperatorsPage -update-readme', and [contributing.md](contributing.md) adds to it.

| domain | operator | from version |
|---|---|---|
`, "'", "`"))
	for _, op := range shape.Operators() {
		since := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(op.Since), "[]")), ", ")
		fmt.Fprintf(&want, "| %s | %s | %s |\n", cmp.Or(op.Domain, "ai.onnx"), op.Name, since)
	}
	if *updateReadme {
		must.Write(t, path, []byte(want.String()))
	}
	got := must.Read(t, path)
	if string(got) != want.String() {
		t.Errorf("%s is out of date: go test ./cmd/memestimate -run OperatorsPage -update-readme", path)
	}
	if n := len(shape.Operators()); n < 200 {
		t.Errorf("%d operators", n)
	}
}

var updateReadme = flag.Bool("update-readme", false, "write the outputs in README.md anew")

const readme = "../../README.md"

// An example is a command in a page, and the output that it shows there.
type example struct {
	command string
	output  []string
	line    int
}

// consoleExamples finds the commands in the blocks marked as console.
func consoleExamples(lines []string) (out []example) {
	inside := false
	for i, l := range lines {
		switch {
		case l == "```console":
			inside = true
		case l == "```":
			inside = false
		case !inside:
		case strings.HasPrefix(l, "$ "):
			out = append(out, example{command: l[2:], line: i + 1})
		default:
			x := &out[len(out)-1]
			x.output = append(x.output, l)
		}
	}
	return out
}

// matches compares output with a pattern in which "..." stands for any lines.
func matches(pattern, got []string) bool {
	if len(pattern) == 0 {
		return len(got) == 0
	}
	if pattern[0] == "..." {
		for i := range len(got) + 1 {
			if matches(pattern[1:], got[i:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && pattern[0] == got[0] && matches(pattern[1:], got[1:])
}

// The README is short, and names every command.
func TestReadmeNamesCommands(t *testing.T) {
	text := must.Read(t, readme)
	if n := strings.Count(string(text), "\n"); n >= 120 {
		t.Errorf("%s has %d lines", readme, n)
	}
	for _, c := range rootCommand(&env{}, subcommands()).Commands() {
		if name := "`" + c.CommandPath(); !strings.Contains(string(text), name+"`") &&
			!strings.Contains(string(text), name+" ") {
			t.Errorf("%s does not name %q", readme, c.CommandPath())
		}
	}
}
