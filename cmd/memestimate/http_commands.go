//go:build !js

package main

import "github.com/spf13/cobra"

// overHTTP are the commands that speak HTTP, to clusters and to Prometheus. A page in a browser has neither, and HTTP
// is a third of the program.
func overHTTP(e *env) []*cobra.Command {
	return []*cobra.Command{k8sCommand(e), webhookCommand(e), whereCommand(e), exporterCommand(e)}
}
