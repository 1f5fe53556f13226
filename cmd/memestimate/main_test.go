package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/test/must"
)

// try runs the program on args and returns what it wrote and its exit code.
func try(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errOut bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errOut, getenv: func(string) string { return "" }}
	code = run(context.Background(), e, args)
	return out.String(), errOut.String(), code
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", "no model given"},
		{"--no-such-flag", "unknown flag: --no-such-flag"},
		{"version extra", `version: unexpected argument "extra"`},
	} {
		stdout, stderr, code := try(t, strings.Fields(tt.args)...)
		if code != exitUsage || stdout != "" || !strings.Contains(stderr, tt.want) {
			t.Errorf("memestimate %s: code %d, stdout %q, stderr %q, want code %d and %q", tt.args, code, stdout, stderr,
				exitUsage, tt.want)
		}
		for line := range strings.Lines(stderr) {
			if !strings.HasPrefix(line, "memestimate: ") {
				t.Errorf("memestimate %s: line %q does not say who speaks", tt.args, line)
			}
		}
	}
}

func TestHelpGoesToStdout(t *testing.T) {
	for flag, want := range map[string]string{"--help": "--help-all", "--help-all": "Exit codes:"} {
		stdout, stderr, code := try(t, flag)
		if code != exitOK || stderr != "" || !strings.Contains(stdout, want) {
			t.Errorf("%s: code %d, stderr %q, stdout %q", flag, code, stderr, stdout)
		}
	}
}

func TestTell(t *testing.T) {
	for _, tt := range []struct {
		err  error
		code int
		want string
	}{
		{nil, exitOK, ""},
		{errors.New("a\nb"), exitInput, "memestimate: a; b\n"},
		{&exitError{code: exitNo}, exitNo, ""},
		{usagef("x %q", "y").withHint("z"), exitUsage, "memestimate: x \"y\"\nmemestimate: hint: z\n"},
	} {
		var w bytes.Buffer
		if code := tell(&w, tt.err); code != tt.code || w.String() != tt.want {
			t.Errorf("tell(%v) = %d, %q, want %d, %q", tt.err, code, w.String(), tt.code, tt.want)
		}
	}
}

func TestPanicIsOneLine(t *testing.T) {
	var stderr bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: panicWriter{}, stderr: &stderr,
		getenv: func(string) string { return "" }}
	if code := run(context.Background(), e, []string{"version"}); code != exitBug {
		t.Errorf("code %d, want %d", code, exitBug)
	}
	if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "please report") ||
		!strings.Contains(got, "main_test.go:") {
		t.Errorf("stderr %q", got)
	}
}

type panicWriter struct{}

func (panicWriter) Write([]byte) (int, error) { panic("the disk is on fire") }

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

func TestOutputThatCannotBeWritten(t *testing.T) {
	var stderr bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: fullWriter{}, stderr: &stderr,
		getenv: func(string) string { return "" }}
	if code := run(context.Background(), e, []string{"version"}); code != exitOutput ||
		!strings.HasPrefix(stderr.String(), "memestimate: stdout: ") {
		t.Errorf("code %d, stderr %q, want %d", code, stderr.String(), exitOutput)
	}
}

func TestEveryCommandIsDescribed(t *testing.T) {
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" && !c.Hidden {
			t.Errorf("%s has no description", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(&env{}, subcommands()))
}

// lacking ends a test for want of a program: it is skipped, but not where CI has installed the program.
func lacking(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// A command line builds the subcommand that it names, and no other; help, whatever stands before it, lists them all.
func TestAskedCommands(t *testing.T) {
	all := subcommands()
	for _, c := range all {
		if built := c.build(&env{}).Name(); built != c.name {
			t.Errorf("%s is asked for as %q", built, c.name)
		}
		asked := askedCommands([]string{c.name, "--help"})
		if len(asked) != 1 || asked[0].name != c.name {
			t.Errorf("%s needs %d commands", c.name, len(asked))
		}
	}
	for _, line := range [][]string{nil, {"--batch", "8", "fit", "resnet50"}, {"help", "fit"}, {"fot", "resnet50"},
		{"completion", "bash"}, {"__complete", "fi"}} {
		if n := len(askedCommands(line)); n != len(all) {
			t.Errorf("%q needs %d commands, want all %d", line, n, len(all))
		}
	}
	if n := len(askedCommands([]string{"resnet50", "--batch", "8"})); n != 0 {
		t.Errorf("a built-in model needs %d commands", n)
	}
	want, _, _ := try(t, "--help-all")
	if got, _, code := try(t, "resnet50", "--help-all"); got != want || code != exitOK {
		t.Errorf("behind a model: exit code %d, and other help than --help-all:\n%s", code, got)
	}
}

// Guesses are weighed, each by another run, for those outputs that show them, and for no others.
func TestGuessesAreWeighedWhereShown(t *testing.T) {
	var s settings
	s.flags(pflag.NewFlagSet("", pflag.ContinueOnError))
	s.batch = 2
	e := &env{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard,
		getenv: func(string) string { return "" }}
	r, err := s.estimate(e, "table", resolve("resnet18"))
	must.OK(t, err)
	for _, g := range r.Guesses {
		if g.Made {
			t.Errorf("%s is weighed for a table of layers", g.Name)
		}
	}
	for _, args := range [][]string{{"--full"}, {"--format", "markdown"}, {"--format", "json"}, {"--format", "html"}} {
		out, stderr, code := try(t, append([]string{"resnet18", "--batch", "2"}, args...)...)
		if code != exitOK || !strings.Contains(out, "activation-in-place") {
			t.Errorf("%v: exit code %d, and no guess is shown: %s", args, code, stderr)
		}
	}
}

// Blocks that one call makes share their lines: a recording of 2 MB has 600,000 blocks.
func TestLinesAreShared(t *testing.T) {
	in := resolve(filepath.Join("..", "..", "recording", "testdata", "net.b8.mrec"))
	rec, err := in.recording(&env{})
	must.OK(t, err)
	r, err := estimate.Recorded(rec, estimate.Options{Step: &estimate.Step{Record: true}})
	must.OK(t, err)
	of, shared := about(r.Simulation), 0
	first := map[string]*string{}
	for block := range r.Simulation.Timeline().Blocks {
		lines := of(block)
		if len(lines) == 0 {
			continue
		}
		switch key := strings.Join(lines, "\n"); first[key] {
		case nil:
			first[key] = &lines[0]
		case &lines[0]:
			shared++
		}
	}
	if len(first) < 10 || shared < 20 {
		t.Errorf("%d texts, and %d blocks share one", len(first), shared)
	}
}
