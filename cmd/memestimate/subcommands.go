package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/memestimate/memestimate/models"
)

// A subcommand is a command below memestimate, to be built where it is asked for.
type subcommand struct {
	name  string
	build func(*env) *cobra.Command
}

// subcommands are all of them. Each has a file of its own.
func subcommands() []subcommand {
	return append([]subcommand{
		{"table", tableCommand},
		{"fit", fitCommand},
		{"models", modelsCommand},
		{"gpus", gpusCommand},
		{"explain", explainCommand},
		{"snapshot", snapshotCommand},
		{"version", versionCommand},
	}, machineCommands()...)
}

// askedCommands returns the subcommands that a command line needs: the one that it names, none for a model that is
// there, and all for what lists or completes them or may be mistyped. To build all with their flags is a fifth of the
// shortest start.
func askedCommands(args []string) []subcommand {
	all := subcommands()
	if len(args) == 0 || strings.HasPrefix(args[0], "-") {
		return all
	}
	for i, c := range all {
		if c.name == args[0] {
			return all[i : i+1]
		}
	}
	if _, err := models.Info(args[0]); err == nil || exists(args[0]) {
		return nil
	}
	return all
}

// addCommands adds subcommands to the command, and where these are all of them the completion of their names.
func addCommands(e *env, root *cobra.Command, subs []subcommand) {
	for _, s := range subs {
		root.AddCommand(s.build(e))
	}
	if root.CompletionOptions.DisableDefaultCmd = len(subs) < 2; root.CompletionOptions.DisableDefaultCmd {
		return
	}
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() == "completion" {
			shellsOnly(c)
		}
	}
}
