//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package main

import "os"

func startCommand(path string, args []string, streams []*os.File) (*os.Process, error) {
	return os.StartProcess(path, args, &os.ProcAttr{Files: streams})
}

func exitCodeOf(state *os.ProcessState) int { return state.ExitCode() }

// A forwarder passes signals on to a child; here the system does that itself.
type forwarder struct{}

func forwardSignals() *forwarder { return &forwarder{} }

func (*forwarder) to(*os.Process) {}

func (*forwarder) stop() {}
