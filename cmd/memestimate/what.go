//go:build !js

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memestimate/memestimate/models"
)

// commandFor builds the command that a command line is for: memestimate itself, for graphs, recordings and
// subcommands, or its form for a script, which takes other flags.
func commandFor(e *env, args []string) *cobra.Command {
	if what, _ := whatOf(args); what == aScript {
		return scriptCommand(e)
	}
	return rootCommand(e, askedCommands(args))
}

// A what is a kind of thing that is estimated.
type what int

const (
	anythingElse what = iota // a graph, a recording, a built-in model, or a subcommand
	aScript                  // of Python, or a launcher of one
)

// whatOf finds what a command line is about, and where among the arguments.
func whatOf(args []string) (what, int) {
	at := firstWord(args)
	if at < 0 {
		return anythingElse, at
	}
	word := args[at]
	if slices.ContainsFunc(subcommands(), func(c subcommand) bool { return c.name == word }) ||
		slices.Contains([]string{"help", "completion", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd}, word) {
		return anythingElse, at
	}
	if _, err := models.Info(word); err == nil {
		return anythingElse, at
	}
	if isScript(word) || len(args) > at+1 && slices.Contains(launchers, word) && !exists(word) {
		return aScript, at
	}
	return anythingElse, at
}

// firstWord returns the place of the first argument that is neither a flag nor the value of one, or -1.
func firstWord(args []string) int {
	if len(args) == 0 {
		return -1
	}
	if !strings.HasPrefix(args[0], "-") {
		return 0
	}
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, f := range []*pflag.FlagSet{scriptCommand(&env{}).Flags(), rootCommand(&env{}, nil).Flags()} {
		known.AddFlagSet(f)
	}
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		switch {
		case args[i] == "--":
			return -1
		case !isFlag || name == "":
			return i
		case strings.Contains(name, "="):
			continue
		}
		f := known.ShorthandLookup(name[:1])
		if long, ok := strings.CutPrefix(name, "-"); ok {
			f = known.Lookup(long)
		} else if len(name) > 1 { // -b32
			continue
		}
		if f != nil && f.NoOptDefVal == "" {
			i++
		}
	}
	return -1
}

// launchers are the programs that start scripts, as the Python package understands them.
var launchers = []string{"torchrun", "accelerate", "deepspeed", "python", "python3"}

// isScript reports whether a word names a script of Python, which need not be there: its absence is said in its words.
func isScript(word string) bool {
	st, err := os.Stat(word)
	return filepath.Ext(word) == ".py" && (err != nil || !st.IsDir())
}
