package main

import "github.com/spf13/cobra"

// overHTTP are the commands that speak HTTP: none in a page.
func overHTTP(*env) []*cobra.Command { return nil }
