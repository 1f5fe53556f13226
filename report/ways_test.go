package report

import "testing"

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
