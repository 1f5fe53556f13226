//go:build !js

package main

import (
	"io"
	"strings"

	"github.com/memestimate/memestimate/gate"
	"github.com/memestimate/memestimate/gate/git"
)

// A revisionFile is a file that a commit has.
type revisionFile = gate.Blob

// atRevision has a file of a revision read.
func (s source) atRevision(read func(io.Reader) error) (err error) {
	if s.blob == nil {
		rev, file, ok := strings.Cut(s.revision, ":")
		if !ok || rev == "" || file == "" || git.CheckRevision(rev) != nil {
			return usagef("%s: want git:REV:PATH, as in git:origin/main:models/net.onnx", quoteArg(s.arg))
		}
		s.blob, err = gate.FindBlob(rev, file)
	}
	if err == nil {
		var failed error
		if err = s.blob.Read(func(r io.Reader) error { failed = read(r); return failed }); err == failed {
			return failed
		}
	}
	return fail(exitInput, "%s: %w", quoteArg(s.arg), err)
}
