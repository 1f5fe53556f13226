// Package race says whether a test runs under the race detector, for those that measure what a process takes. The
// detector keeps a history of every word that the program reads and writes, five to ten times its memory, and has
// sync.Pool forget at random: what it takes says nothing of the program.
package race

import "testing"

// SkipMemory skips a test of memory under the race detector.
func SkipMemory(t *testing.T) {
	t.Helper()
	if Enabled {
		t.Skip("the race detector takes memory of its own, so what the program takes cannot be told")
	}
}
