package main

import (
	"cmp"
	"io"
	"path"
	"strings"

	"github.com/memestimate/memestimate/git"
	"github.com/memestimate/memestimate/onnxload"
)

// revisionPrefix begins a MODEL that is a file of a git revision: git:REV:PATH.
const revisionPrefix = "git:"

// A kept is a file that a commit of a repository has.
type kept struct {
	repo *git.Repo
	file git.File
	name string // from the folder that the repository was found from, for git-lfs
}

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

// openRevision reads a model from git, through git-lfs where that keeps it and is installed; weights beside the model
// are not read, here as everywhere.
func (s source) openRevision() (m *onnxload.Model, err error) {
	err = s.atRevision(func(r io.Reader) (err error) {
		m, err = onnxload.ReadStream(s.tee(r), onnxload.Options{Path: s.arg})
		return inputError(err)
	})
	if err != nil && m != nil {
		m.Close()
		m = nil
	}
	return m, err
}

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
