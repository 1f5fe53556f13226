package main

import "github.com/spf13/cobra"

// commandFor builds the command that a command line is for: a page has no Python.
func commandFor(e *env, args []string) *cobra.Command { return rootCommand(e, askedCommands(args)) }
