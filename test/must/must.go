// Package must ends a test at what has to succeed for it to go on.
package must

import (
	"os"
	"testing"
)

// OK ends the test where there is an error.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Read returns what a file holds.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	OK(t, err)
	return data
}

// Write writes a file that its owner may write and everybody may read.
func Write[T string | []byte](t testing.TB, path string, data T) {
	t.Helper()
	OK(t, os.WriteFile(path, []byte(data), 0o644))
}
