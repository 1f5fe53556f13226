//go:build !unix

package main

import (
	"io/fs"
	"os"
	"os/exec"
)

const openNonblock = 0

// endingSignals end a wait.
var endingSignals = []os.Signal{os.Interrupt}

// runnable cannot be told from a file's mode here.
func runnable(string, fs.FileInfo) bool { return true }

// become is never reached: holding GPUs needs Linux.
func become(path string, command, environ []string) error {
	return fail(exitLauncher, "run: becoming a command needs a Unix")
}

func keepIgnored(bool) {}

func detach(*exec.Cmd) {}

// own reports whether a folder is there: on these systems a user's folder for caches is in the user's profile.
func own(folder string) bool {
	st, err := os.Stat(folder)
	return err == nil && st.IsDir()
}

func startCommand(path string, args []string, streams []*os.File) (*os.Process, error) {
	return os.StartProcess(path, args, &os.ProcAttr{Files: streams})
}

func exitCodeOf(state *os.ProcessState) int { return state.ExitCode() }

// A forwarder passes signals on to a child; here the system does that itself.
type forwarder struct{}

func forwardSignals() *forwarder { return &forwarder{} }

func (*forwarder) to(*os.Process) {}

func (*forwarder) stop() {}
