//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"unsafe"
)

// startCommand starts a command; a file that the kernel does not know how to run is a shell script
// without a first line.
func startCommand(c *exec.Cmd) error {
	err := c.Start()
	if pe, ok := err.(*os.PathError); ok && pe.Err == syscall.ENOEXEC {
		script := append([]string{"sh", c.Path}, c.Args[1:]...)
		*c = exec.Cmd{Path: "/bin/sh", Args: script, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr}
		err = c.Start()
	}
	return err
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
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2} {
		if !signal.Ignored(s) {
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
	var group int32
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, tty.Fd(), syscall.TIOCGPGRP, uintptr(unsafe.Pointer(&group)))
	return errno == 0 && int(group) == syscall.Getpgrp()
}
