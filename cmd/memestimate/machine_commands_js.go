package main

// machineCommands are those that need more than a file: none in a page.
func machineCommands() []subcommand { return nil }
