package main

import "github.com/spf13/cobra"

// machineCommands are those that need more than a file: none in a page.
func machineCommands() []subcommand { return nil }

// machineSnapshotCommands are those about a recording that a page does not ask: it shows and draws one.
func machineSnapshotCommands(*env) []*cobra.Command { return nil }
