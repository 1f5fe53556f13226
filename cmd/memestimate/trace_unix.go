//go:build unix

package main

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
)

// startCommand starts a program with these standard streams, of which nil is a closed one; a file that the kernel does
// not know how to run is a shell script without a first line. What it leaves behind when it ends becomes this
// process's child, where the system can do that.
func startCommand(path string, args []string, streams []*os.File) (*os.Process, error) {
	keepIgnored(false)
	adopt()
	p, err := os.StartProcess(path, args, &os.ProcAttr{Files: streams})
	if errors.Is(err, syscall.ENOEXEC) {
		p, err = os.StartProcess("/bin/sh", append([]string{"sh", path}, args[1:]...), &os.ProcAttr{Files: streams})
	}
	return p, err
}

// exitCodeOf returns a command's exit code as a shell does: 128+n when signal n ended it.
func exitCodeOf(state *os.ProcessState) int {
	if s, ok := state.Sys().(syscall.WaitStatus); ok && s.Signaled() {
		return exitSignal + int(s.Signal())
	}
	return state.ExitCode()
}

// A forwarder passes signals on to a child.
type forwarder struct {
	came chan os.Signal
	done chan struct{}
}

// forwardSignals begins to keep signals for a child. SIGTSTP and SIGCONT reach the child from the
// terminal as they reach us.
func forwardSignals() *forwarder {
	f := &forwarder{make(chan os.Signal, 16), make(chan struct{})}
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1,
		syscall.SIGUSR2} {
		if !signal.Ignored(s) && !inherited.Ignored(int(s.(syscall.Signal))) {
			signal.Notify(f.came, s)
		}
	}
	return f
}

// to passes what came, and what comes until stop, on to the child. The terminal sends ^C and ^\ to the
// child itself, so those are passed on only where they came from elsewhere: a second one would make many a
// program quit without its cleaning up.
func (f *forwarder) to(child *os.Process) {
	go func() {
		for {
			select {
			case s := <-f.came:
				if (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground() {
					continue
				}
				child.Signal(s)
			case <-f.done:
				return
			}
		}
	}()
}

func (f *forwarder) stop() {
	signal.Stop(f.came)
	close(f.done)
}

// inForeground tells whether this process belongs to the group that its terminal sends signals to.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	own, ownErr := unix.Getpgid(0)
	return err == nil && ownErr == nil && group == own
}
