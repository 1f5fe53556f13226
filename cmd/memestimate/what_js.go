package main

import "github.com/spf13/cobra"

// commandFor builds the command that a command line is for: a page has no scripts, and no files of its own.
func commandFor(e *env, args []string) (*cobra.Command, []string) {
	return rootCommand(e, askedCommands(args)), args
}
