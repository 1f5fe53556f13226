//go:build !js

package main

import (
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/test/must"
)

// A row of the table is made once for what decides it: the recording, the settings, the program.
func TestRowsAreKept(t *testing.T) {
	made := 0
	say := func() (string, error) { made++; return "11.33 13.60 yes", nil }
	ask := func(c *answerCache, w tuning, settings string) {
		t.Helper()
		if got, err := c.told(&w, settings, say); err != nil || got != "11.33 13.60 yes" {
			t.Errorf("told %q, %v", got, err)
		}
	}
	c := &answerCache{folder: t.TempDir(), question: &question{Model: "org/name"}, state: "installed"}
	way := tuning{Batch: 1, QLoRA: "16"}
	for range 2 {
		ask(c, way, "t4")
	}
	if made != 1 {
		t.Errorf("made %d times, want once", made)
	}
	ask(c, way, "l4")
	ask(c, tuning{Batch: 2, QLoRA: "16"}, "t4")
	ask(&answerCache{folder: c.folder, question: c.question, state: "another"}, way, "t4")
	if made != 4 {
		t.Errorf("made %d times, want one for each of four", made)
	}
	none := &answerCache{question: c.question}
	for range 2 {
		ask(none, way, "t4")
	}
	if made != 6 {
		t.Errorf("made %d times, want anew without a cache", made)
	}
}

// The answer that is kept is what was told, for the same flags and the same width alone.
func TestAnswersAreKept(t *testing.T) {
	c := &answerCache{folder: t.TempDir(), question: &question{Model: "org/name"}, state: "installed"}
	file := "../../recording/testdata/net.b8.mrec"
	ask := func(columns string, flags ...string) (string, error) {
		var text strings.Builder
		e := &env{stdin: strings.NewReader(""), stdout: &text, stderr: io.Discard, getenv: func(name string) string {
			return map[string]string{"COLUMNS": columns}[name]
		}}
		tuner := tuner{way: tuning{Batch: 1}}
		cmd := &cobra.Command{Use: "memestimate"}
		tuner.recorder.flags(cmd.Flags())
		must.OK(t, cmd.ParseFlags(flags))
		err := tuner.firstAnswer(e, cmd, source{arg: "org/name", name: "name", file: file, made: true}, c)
		return text.String(), err
	}
	wanted, err := ask("80")
	must.OK(t, err)
	file = "gone.mrec"
	if got, err := ask("80"); err != nil || got != wanted || !strings.Contains(got, "allocated") {
		t.Errorf("told %q, %v, want %q", got, err, wanted)
	}
	for _, other := range [][]string{{"60"}, {"80", "--gpu", "t4"}, {"80", "--full"}} {
		if got, err := ask(other[0], other[1:]...); err == nil {
			t.Errorf("%q: told %q, want the recording read", other, got)
		}
	}
}
