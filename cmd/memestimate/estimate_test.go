package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/test/must"
)

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
