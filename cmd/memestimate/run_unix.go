//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/memestimate/memestimate/cmd/memestimate/inherited"
)

// openNonblock keeps the opening of a pipe from waiting for somebody who writes.
const openNonblock = syscall.O_NONBLOCK

// endingSignals end a wait.
var endingSignals = []os.Signal{syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGHUP}

// runnable tells whether somebody may execute the file; whether we may, the kernel will say.
func runnable(path string, st fs.FileInfo) bool {
	return st.Mode().Perm()&0o111 != 0
}

// keepIgnored ignores what this program was started to ignore, so that a command that it starts or becomes does too.
// Go's runtime has let go of those signals. A trace needs SIGCHLD itself.
func keepIgnored(childToo bool) {
	for s := syscall.Signal(1); s < 32; s++ {
		switch s {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGURG, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE,
			syscall.SIGILL, syscall.SIGTRAP:
			continue // nobody can, or the runtime needs them
		case syscall.SIGCHLD:
			if !childToo {
				continue
			}
		}
		if inherited.Ignored(int(s)) {
			signal.Ignore(s)
		}
	}
}

// become replaces this process by the command. It returns only when that fails. A file that the kernel
// does not know how to run is a shell script without a first line, as execvp(3) has it.
func become(path string, command, environ []string) error {
	keepIgnored(true)
	for fd := range 3 {
		if inherited.Closed(fd) {
			syscall.Close(fd) // what the runtime opened in its place
		}
	}
	err := syscall.Exec(path, command, environ)
	if errors.Is(err, syscall.ENOEXEC) {
		err = syscall.Exec("/bin/sh", append([]string{"sh", path}, command[1:]...), environ)
	}
	code := exitCannot
	if errors.Is(err, fs.ErrNotExist) { // its interpreter is missing
		code = exitMissing
	}
	return fail(code, "%s: cannot be run: %w", quoteArg(command[0]), err)
}

// detach keeps the terminal's signals from a program that is to be started.
// Where its context ends, so do the children that it has.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if c.Cancel != nil {
		c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	}
}

// own reports whether a folder is this user's and nobody else can write into it: what is run from one must be.
func own(folder string) bool {
	st, err := os.Stat(folder)
	if err != nil || !st.IsDir() || st.Mode().Perm()&0o022 != 0 {
		return false
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
