package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/report/page"
	"github.com/memestimate/memestimate/simulate/caching"
	"github.com/memestimate/memestimate/snapshot"
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
	for block := range r.Simulation.Run.Log.Blocks() {
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

// What the page says of a predicted run is what the replay came to.
func TestPredictedRun(t *testing.T) {
	data, _ := call(t, nil, exitOK, "snapshot", "html", pickle("resnet50_seed"))
	for _, want := range []string{"428.98 MiB", "456.00 MiB", "optim/sgd.py:455:_multi_tensor_sgd",
		"Content-Security-Policy"} {
		if !strings.Contains(data, want) {
			t.Errorf("the page of a snapshot has no %q", want)
		}
	}
	s, err := readSnapshot(&env{}, pickle("resnet50_seed"))
	must.OK(t, err)
	p, err := s.Play(0)
	must.OK(t, err)
	p.Infer()
	r, err := caching.NewReplayer(caching.Config{}).Finish(p.Log)
	must.OK(t, err)
	run := page.Predicted("predicted", p.Log.Source(), r, nil)
	var most, segments, used int64
	for _, l := range run.Levels {
		most = max(most, l.Bytes)
	}
	for _, g := range run.Segments {
		segments += g.Bytes
		for _, b := range g.Blocks {
			if b.Used {
				used += b.Bytes
			}
		}
	}
	if most != r.PeakReserved.Reserved || run.Reserved != most || segments != r.End.Reserved || used != r.End.Allocated {
		t.Errorf("levels up to %d, segments of %d with %d in use; the replay has %+v and %+v", most, segments, used,
			r.PeakReserved, r.End)
	}
	measured, err := page.Recorded(s, 0)
	must.OK(t, err)
	measured.Name = "measured"
	most = 0
	for _, l := range measured.Levels {
		most = max(most, l.Bytes)
	}
	if most != s.Figures(snapshot.AllDevices).Reserved {
		t.Errorf("the measured levels reach %d", most)
	}
	var html bytes.Buffer
	must.OK(t, page.Write(&html, &page.Page{Title: "both", Runs: []page.Run{run, *measured}}))
	if !strings.Contains(html.String(), "Differences by category") {
		t.Error("two runs are not compared")
	}
	call(t, nil, exitUsage, "snapshot", "html")
	call(t, nil, exitUsage, "snapshot", "html", "a", "b", "c")
}

// No command prints a longer line than there is room for, as COLUMNS says it; a file gets whole lines.
func TestTextFitsTheTerminal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.txt")
	for _, args := range []string{
		"resnet18 --batch 2 --gpu t4 --what-if --stats", "resnet18 --batch 2 --full", "gpt2 --batch 2 --budget 1GiB", "table bert_base --batch 2",
		"table resnet18 --batch 2 --columns layer,operator,output,dtype,parameters,saved,share",
		"fit resnet18 --gpu t4 --precision amp-bf16", "diff distilbert bert_base --batch 2",
		"diff resnet18 resnet50 --batch 1,32 --precision fp32,amp-bf16", "models",
		"compare resnet50 ../../snapshot/testdata/resnet50_seed.pickle.gz --batch 1 --optimizer sgdm",
		"snapshot show ../../snapshot/testdata/resnet50_seed.pickle.gz",
		"--help", "table --help", "run --help", "help snapshot",
	} {
		for _, width := range []int{40, 57, 80, 120} {
			stdout := inTerminal(t, width, args)
			for line := range strings.Lines(stdout) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%s: a line of %d characters in a terminal of %d: %q", args, n, width, line)
					break
				}
			}
			if stdout == "" {
				t.Errorf("%s: nothing", args)
			}
		}
	}
	inTerminal(t, 40, "resnet18 --batch 2 --output "+file)
	data, err := os.ReadFile(file)
	whole, _, _ := try(t, "resnet18", "--batch", "2", "--full")
	if err != nil || string(data) != whole {
		t.Errorf("a file has %d bytes, want the %d of --full: %v", len(data), len(whole), err)
	}
}

func inTerminal(t *testing.T, width int, args string) string {
	t.Helper()
	var out, errs bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(name string) string {
		if name == "COLUMNS" {
			return strconv.Itoa(width)
		}
		return ""
	}}
	if code := run(context.Background(), e, strings.Fields(args)); code != exitOK && code != exitNo {
		t.Fatalf("%s: exit code %d: %s", args, code, errs.String())
	}
	return out.String()
}
