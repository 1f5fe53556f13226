package main

import (
	"errors"
	"io"
)

// A revisionFile is a file that a commit has: none in a page.
type revisionFile struct{}

// atRevision cannot read a repository: a page has none.
func (source) atRevision(func(io.Reader) error) error {
	return fail(exitInput, "%w", errors.ErrUnsupported)
}
