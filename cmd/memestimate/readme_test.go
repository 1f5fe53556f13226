package main

import (
	"flag"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

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
