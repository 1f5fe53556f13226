//go:build !js

package main

import (
	"cmp"
	"io"
	"strings"

	"github.com/memestimate/memestimate/gate/git"
)

// atRevision has a file of a revision read.
func (s source) atRevision(read func(io.Reader) error) error {
	k := s.kept
	if k == nil {
		var err error
		if k, err = s.find(); err != nil {
			return err
		}
	}
	content, err := k.repo.Open(k.file.ID, k.name)
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(s.arg), err)
	}
	readErr := read(content)
	if err := content.Close(); err != nil { // what git complains of is why it could not be read
		return fail(exitInput, "%s: %w", quoteArg(s.arg), err)
	}
	return readErr
}

// find asks git for the file of a revision.
func (s source) find() (*kept, error) {
	rev, file, ok := strings.Cut(s.revision, ":")
	if !ok || rev == "" || file == "" || git.CheckRevision(rev) != nil {
		return nil, usagef("%s: want git:REV:PATH, as in git:origin/main:models/net.onnx", quoteArg(s.arg))
	}
	repo, err := git.Open(cmp.Or(s.dir, "."))
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(s.arg), err)
	}
	commit, err := repo.Commit(rev)
	if err != nil {
		return nil, fail(exitInput, "%s: %s: %w", quoteArg(s.arg), quoteArg(rev), err)
	}
	f, err := repo.Find(commit, file)
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(s.arg), err)
	}
	return &kept{repo, f, file}, nil
}
