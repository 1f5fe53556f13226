package main

import (
	"errors"
	"io"
)

// atRevision cannot read a repository: a page has none.
func (source) atRevision(func(io.Reader) error) error {
	return fail(exitInput, "%w", errors.ErrUnsupported)
}
