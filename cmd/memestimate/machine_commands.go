//go:build !js

package main

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
		{"slurm", slurmCommand},
		{"k8s", k8sCommand},
		{"where", whereCommand},
	}
}
