// Package testfile reads files in which tests keep what was measured, and parts of documents that tests write.
package testfile

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// Unzipped returns what a gzip file holds.
func Unzipped(t testing.TB, path string) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(must.Read(t, path)))
	must.OK(t, err)
	data, err := io.ReadAll(z)
	must.OK(t, err)
	return data
}

// JSON reads the JSON that a file holds, be it a gzip file or not, into a value.
func JSON(t testing.TB, path string, into any) {
	t.Helper()
	data := must.Read(t, path)
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
	head, rest, begins := strings.Cut(string(must.Read(t, path)), begin)
	text, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has nothing between %q and %q", path, begin, end)
	}
	return Part{head + begin, text, end + tail, path}
}

// Write puts a text in the part's place.
func (p Part) Write(t testing.TB, text string) {
	t.Helper()
	must.Write(t, p.path, p.Before+text+p.After)
}
