//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// makePipe makes a named pipe.
func makePipe(t *testing.T, path string) {
	t.Helper()
	must.OK(t, syscall.Mkfifo(path, 0o666))
}
