package report

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/test/must"
)

// Where warnings leave no room for the heaviest guess, the first screen says that there is one.
func TestGuessIsNeverSilent(t *testing.T) {
	long := strings.Repeat("A warning that takes its room. ", 60)
	for _, notes := range [][]estimate.Note{
		nil, {{Level: estimate.Warning, Text: long}},
		{{Level: estimate.Warning, Text: long}, {Level: estimate.Info, Text: "x"}},
		{{Level: estimate.Warning, Text: long}, {Level: estimate.Warning, Text: long}},
	} {
		r := &estimate.Report{Peak: &estimate.Peak{}, Notes: notes}
		r.Peak.Allocated, r.Peak.Device = 1<<30, 2<<30
		r.Guesses = []estimate.Guess{{Name: "tied-head", Takes: strings.Repeat("what is taken for something else ", 12),
			Made: true, Weighed: true, Bytes: 1 << 29, Assume: "tied-head=no"}}
		var b strings.Builder
		must.OK(t, (&Answer{Report: r}).Text(&b, Look{}))
		if !strings.Contains(b.String(), "guess") {
			t.Errorf("%d notes: no word of the guess:\n%s", len(notes), &b)
		}
		if n := strings.Count(b.String(), "\n"); n > answerLines {
			t.Errorf("%d notes: %d lines", len(notes), n)
		}
	}
}
