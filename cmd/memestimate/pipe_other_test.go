//go:build !unix

package main

import "testing"

// makePipe skips the test: this system has no pipes in folders.
func makePipe(t *testing.T, _ string) {
	t.Helper()
	t.Skip("no named pipes here")
}
