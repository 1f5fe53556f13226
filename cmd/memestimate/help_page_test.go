package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Help has the flags that people use first, a line each, and what it leaves out is in --help-all: every flag of every
// command, in lines of 80 characters.
func TestHelpPages(t *testing.T) {
	stdout, _, _ := try(t, "--help")
	for name := range firstFlags {
		n := 0
		for line := range strings.Lines(stdout) {
			if strings.Contains(line, " --"+name+" ") && strings.HasPrefix(strings.TrimLeft(line, " "), "-") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("--help has %d lines for --%s:\n%s", n, name, stdout)
		}
	}
	all, _, _ := try(t, "--help-all")
	for _, c := range rootCommand(&env{}, subcommands()).Commands() {
		if n := strings.Count(all, "\n  "+c.Name()+" "); c.IsAvailableCommand() && n != 1 {
			t.Errorf("--help-all lists %s %d times", c.Name(), n)
		}
	}
	for _, g := range commandGroups {
		for _, name := range g.names {
			if !strings.Contains(strings.ReplaceAll(stdout, "\n", " "), " "+name+" ") {
				t.Errorf("--help does not name %s", name)
			}
		}
	}
	if n := strings.Count(stdout, "\n"); n > 22 {
		t.Errorf("--help has %d lines, where a terminal of 24 shows the command, 22 and the prompt", n)
	}
	if len(firstFlags) != 10 || strings.Contains(stdout, "--zero-grad") || !strings.Contains(stdout, "--help-all tells ") {
		t.Errorf("%d first flags\n%s", len(firstFlags), stdout)
	}
	var each func(c *cobra.Command, path []string)
	each = func(c *cobra.Command, path []string) {
		for _, flag := range []string{"--help", "--help-all"} {
			text, _, code := try(t, append(path, flag)...)
			if code != exitOK {
				t.Fatalf("%q %s: exit code %d", path, flag, code)
			}
			for line := range strings.Lines(text) {
				if len([]rune(line)) > 81 {
					t.Errorf("%q %s: a line of %d characters: %s", path, flag, len([]rune(line))-1, line)
				}
			}
			c.Flags().VisitAll(func(f *pflag.Flag) {
				if flag == "--help-all" && !f.Hidden && f.Name != "help" && f.Name != "version" &&
					!strings.Contains(text, "--"+f.Name) {
					t.Errorf("%q --help-all lacks --%s", path, f.Name)
				}
			})
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() && sub.Name() != "completion" {
				each(sub, append(append([]string{}, path...), sub.Name()))
			}
		}
	}
	each(rootCommand(&env{}, subcommands()), nil)
}
