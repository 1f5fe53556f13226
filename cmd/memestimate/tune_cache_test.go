//go:build !js

package main

import "testing"

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
