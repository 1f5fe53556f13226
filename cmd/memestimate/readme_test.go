package main

import (
	"bytes"
	"context"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var updateReadme = flag.Bool("update-readme", false, "write the outputs in README.md anew")

const readme = "../../README.md"

// An example is a command in README.md, and the output that it shows there.
type example struct {
	command string
	output  []string
	line    int
}

// TestReadme runs the commands in README.md and compares their outputs. A line of
// three dots stands for any number of lines.
func TestReadme(t *testing.T) {
	data, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	t.Chdir(filepath.Dir(readme)) // where a reader tries them
	examples := readmeExamples(lines)
	if len(examples) < 3 {
		t.Fatalf("%d examples in %s", len(examples), readme)
	}
	for _, x := range slices.Backward(examples) { // so that line numbers stay true while updating
		var out bytes.Buffer
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &out, getenv: func(string) string { return "" }}
		run(context.Background(), e, strings.Fields(x.command)[1:])
		got := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if !slices.ContainsFunc(x.output, func(l string) bool { return l != "..." }) && !*updateReadme {
			t.Errorf("%s:%d: %q shows no output", readme, x.line, x.command)
		}
		if matches(x.output, got) {
			continue
		}
		if *updateReadme {
			lines = slices.Replace(lines, x.line, x.line+len(x.output), shorten(got)...)
			continue
		}
		t.Errorf("%s:%d: $ %s\n%s\nwant\n%s", readme, x.line, x.command, strings.Join(got, "\n"), strings.Join(x.output, "\n"))
	}
	if *updateReadme {
		if err := os.WriteFile(filepath.Base(readme), []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// readmeExamples finds the commands in the blocks marked as console.
func readmeExamples(lines []string) (out []example) {
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
	return len(got) > 0 && sameLine(pattern[0], got[0]) && matches(pattern[1:], got[1:])
}

// sameLine compares two lines. Numbers may be a twentieth apart: a rule that follows PyTorch
// more closely moves the last digits of many, and the README need not.
func sameLine(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	if len(x) != len(y) || strings.HasPrefix(a, " ") != strings.HasPrefix(b, " ") {
		return false
	}
	for i := range x {
		if x[i] == y[i] || strings.Trim(x[i]+y[i], "-") == "" { // rules under a header are as long as the numbers
			continue
		}
		far := 0.05
		if volatile[x[0]] {
			far = 0.6
		}
		m, errM := strconv.ParseFloat(strings.ReplaceAll(x[i], ",", ""), 64)
		n, errN := strconv.ParseFloat(strings.ReplaceAll(y[i], ",", ""), 64)
		if errM != nil || errN != nil || math.Abs(m-n) > far*math.Abs(m) {
			return false
		}
	}
	return true
}

// volatile are the small parts of a peak, that move most when a rule does.
var volatile = map[string]bool{
	"fragmentation": true, "rounding": true, "gradients": true, "backward": true, "workspaces": true, "temporaries": true,
	"first": true, "last": true, "allocated": true, "reserved": true, // of a comparison, whose differences are small
}

func TestSameLine(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"a 1,000 b", "a  1,049 b", true}, {"a 1000", "a 1051", false}, {"a 5", "b 5", false}, {"--- --", "---- -", true},
		{"x 0.00", "x 0.01", false}, {"x", "x y", false}, {"note", " note", false},
	} {
		if sameLine(c.a, c.b) != c.want {
			t.Errorf("%q and %q: want %v", c.a, c.b, c.want)
		}
	}
}

// shorten leaves out the middle of a long output.
func shorten(lines []string) []string {
	if len(lines) <= 36 {
		return lines
	}
	return slices.Concat(lines[:8], []string{"..."}, lines[len(lines)-23:])
}

// The README's test command is the one that CI runs.
func TestReadmeTestCommand(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	ci, err := os.ReadFile("../../.ci/run")
	if err != nil {
		t.Fatal(err)
	}
	const command = "go test ./..."
	if !strings.Contains(string(text), "\n"+command+"\n") || !strings.HasSuffix(string(ci), "\n"+command+"\n") {
		t.Errorf("README.md and .ci/run do not both have the line %q", command)
	}
}

// The README names every command.
func TestReadmeNamesCommands(t *testing.T) {
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rootCommand(&env{}).Commands() {
		if line := "| `" + c.CommandPath() + " "; !strings.Contains(string(text), line) && !strings.Contains(string(text), strings.TrimSpace(line)+"`") {
			t.Errorf("%s has no row for %q", readme, c.CommandPath())
		}
	}
}
