package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
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
