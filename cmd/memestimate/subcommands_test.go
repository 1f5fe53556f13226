package main

import "testing"

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
