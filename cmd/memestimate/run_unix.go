//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// endingSignals end a wait.
var endingSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}

// runnable tells whether somebody may execute the file; whether we may, the kernel will say.
func runnable(path string, st fs.FileInfo) bool {
	return st.Mode().Perm()&0o111 != 0
}

// become replaces this process by the command. It returns only when that fails. A file that the kernel
// does not know how to run is a shell script without a first line, as execvp(3) has it.
func become(path string, command, environ []string) error {
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
