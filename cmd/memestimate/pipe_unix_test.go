//go:build unix

package main

import (
	"syscall"
	"testing"
)

// makePipe makes a named pipe.
func makePipe(t *testing.T, path string) {
	t.Helper()
	check(t, syscall.Mkfifo(path, 0o666))
}
