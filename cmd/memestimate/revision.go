package main

import (
	"io"
	"path"
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// revisionPrefix begins a MODEL that is a file of a git revision: git:REV:PATH.
const revisionPrefix = "git:"

// resolveRevision takes git:REV:PATH apart. The revision may be anything that git knows, the path is from the
// top of the repository, or from the current folder where it begins with "./".
func resolveRevision(arg string) (source, bool) {
	text, ok := strings.CutPrefix(arg, revisionPrefix)
	if !ok {
		return source{}, false
	}
	_, file, _ := strings.Cut(text, ":")
	return source{arg: arg, name: path.Base(file), revision: text}, true
}

// openRevision reads a model from git; weights beside the model are not read, here as everywhere.
func (s source) openRevision() (m *onnxload.Model, err error) {
	err = s.atRevision(func(r io.Reader) (err error) {
		m, err = onnxload.ReadStream(r, onnxload.Options{Path: s.arg})
		return inputError(err)
	})
	if err != nil && m != nil {
		m.Close()
		m = nil
	}
	return m, err
}
