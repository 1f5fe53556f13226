// Package testfile reads files in which tests keep what was measured, and parts of documents that tests write.
package testfile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
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

// JSON reads the JSON that a file holds, be it a gzip file or not, into a value.
func JSON(t testing.TB, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.HasPrefix(data, []byte{0x1f, 0x8b}) { // RFC 1952
		data = Unzipped(t, path)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// A Part is what stands between two marks of a document, with what is around it, the marks included.
type Part struct {
	Before, Text, After string
	path                string
}

// Between returns the part of a document between two marks, which must be there.
func Between(t testing.TB, path, begin, end string) Part {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, begins := strings.Cut(string(data), begin)
	text, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has nothing between %q and %q", path, begin, end)
	}
	return Part{head + begin, text, end + tail, path}
}

// Write puts a text in the part's place.
func (p Part) Write(t testing.TB, text string) {
	t.Helper()
	if err := os.WriteFile(p.path, []byte(p.Before+text+p.After), 0o644); err != nil {
		t.Fatal(err)
	}
}
