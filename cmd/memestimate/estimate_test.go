package main

import (
	"strings"
	"testing"
)

// Guesses are weighed, each by another run, for those outputs that show them, and for no others.
func TestGuessesAreWeighedWhereShown(t *testing.T) {
	s := settings{batch: 2}
	r, err := s.estimate(&env{getenv: func(string) string { return "" }}, "table", resolve("resnet18"))
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.Guesses {
		if g.Made {
			t.Errorf("%s is weighed for a table of layers", g.Name)
		}
	}
	for _, args := range [][]string{nil, {"--format", "markdown"}, {"--format", "json"}, {"--format", "html"}} {
		out, stderr, code := try(t, append([]string{"resnet18", "--batch", "2"}, args...)...)
		if code != exitOK || !strings.Contains(out, "activation-in-place") {
			t.Errorf("%v: exit code %d, and no guess is shown: %s", args, code, stderr)
		}
	}
}
