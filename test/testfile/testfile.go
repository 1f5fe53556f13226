// Package testfile reads the compressed files in which tests keep what was measured.
package testfile

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"testing"
)

// Unzipped returns what a gzip file holds.
func Unzipped(t testing.TB, path string) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

// JSON reads the JSON that a gzip file holds into a value.
func JSON(t testing.TB, path string, into any) {
	t.Helper()
	if err := json.Unmarshal(Unzipped(t, path), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}
