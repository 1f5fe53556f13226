package report

import (
	"slices"
	"testing"

	"github.com/memestimate/memestimate/estimate"
)

// A few words say why: neither the setting that an error begins with nor what to do about it.
func TestRefusal(t *testing.T) {
	for err, want := range map[string]string{
		"parallel: no blocks of the graph repeat: name the modules to split": "no blocks of the graph repeat",
		"stage 0: parallel: more than one tensor passes: from stage 0":       "more than one tensor passes",
		"DeepSpeed in fp16: that is not simulated":                           "DeepSpeed in fp16",
		"simulate: \x1b[1m": `\x1b[1m`,
	} {
		if got := Refusal(err); got != "cannot be simulated: "+want {
			t.Errorf("%q: %q, want %q", err, got, want)
		}
	}
}

// Beside the set that fits stands the cheapest that survives, in the place of one block fewer where it is that set.
func TestCheckpointedSurvivor(t *testing.T) {
	fit := estimate.CheckpointFit{Memory: 6 << 30, By: "device_bytes", Fits: true, Of: 8, Plain: 9 << 30, All: 4 << 30,
		Blocks: []string{"a.0", "a.1", "a.2"}, Expression: "blocks:3", Need: 6 << 30, Fewer: 7 << 30,
		EndFewer: estimate.Retries}
	survivor := func(blocks ...string) *estimate.Survivor {
		return &estimate.Survivor{Blocks: blocks, Expression: "x", Need: 8 << 30, Outcome: estimate.Retries, Retries: 5}
	}
	steady := survivor("a.0", "a.1")
	steady.Retries, steady.EachStep = 40, 2
	fits := survivor("a.0")
	fits.Outcome = estimate.FitsAsPredicted
	for _, c := range []struct {
		survivor *estimate.Survivor
		want     []string
	}{
		{nil, []string{"0 of 8: does not fit", "2 of 8: does not fit (survives by retries)", "3 of 8: fits blocks:3",
			"8 of 8: fits blocks"}},
		{survivor(), []string{"0 of 8: survives, 5 retries in all", "2 of 8: does not fit (survives by retries)",
			"3 of 8: fits blocks:3", "8 of 8: fits blocks"}},
		{fits, []string{"0 of 8: does not fit", "1 of 8: survives as predicted a.0",
			"2 of 8: does not fit (survives by retries)", "3 of 8: fits blocks:3", "8 of 8: fits blocks"}},
		{steady, []string{"0 of 8: does not fit", "2 of 8: survives, 2 retries each step a.0 a.1", "3 of 8: fits blocks:3",
			"8 of 8: fits blocks"}},
	} {
		f, got := fit, []string(nil)
		f.Survivor = c.survivor
		for _, row := range Checkpointed(&estimate.Report{Checkpoint: &f}).Rows {
			line := row[0] + ": " + row[3]
			if row[4] != "" {
				line += " " + row[4]
			}
			got = append(got, line)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%+v:\n%q, want\n%q", c.survivor, got, c.want)
		}
	}
}
