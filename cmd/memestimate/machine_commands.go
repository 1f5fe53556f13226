//go:build !js

package main

import "github.com/spf13/cobra"

// machineCommands are those that need more than a file: GPUs, processes, repositories, clusters, the network. A page in
// a browser has none of it, and they are a third of the program.
func machineCommands() []subcommand {
	return []subcommand{
		{"compare", compareCommand},
		{"diff", diffCommand},
		{"check", checkCommand},
		{"comment", commentCommand},
		{"devices", devicesCommand},
		{"run", runCommand},
		{"trace", traceCommand},
		{"release", releaseCommand},
		{"slurm", slurmCommand},
		{"k8s", k8sCommand},
		{"where", whereCommand},
	}
}

// machineSnapshotCommands are those about a recording that a page does not ask: it shows and draws one.
func machineSnapshotCommands(e *env) []*cobra.Command {
	return []*cobra.Command{
		snapshotTopCommand(e),
		snapshotDiffCommand(e),
		snapshotReplayCommand(e),
	}
}
