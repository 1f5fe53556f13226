package main

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"strings"
)

// How a file stands to its base.
const (
	isSame    = "same"
	isChanged = "changed"
	isNew     = "new"
)

// A baseline is a git revision that files of a folder are compared with.
type baseline struct {
	dir, rev string
	has      map[string]bool // files of the revision, from the folder
	changed  map[string]bool // of those, the ones that differ now
}

// newBaseline asks git which files of a folder a revision has, and which differ.
func newBaseline(dir, rev string) (*baseline, error) {
	if strings.HasPrefix(rev, "-") {
		return nil, usagef("base %s is not a revision", quoteArg(rev))
	}
	b := &baseline{dir: dir, rev: rev}
	if _, err := b.git("rev-parse", "--git-dir"); err != nil {
		return nil, fmt.Errorf("the base that growth is measured from: %w", err)
	}
	if _, err := b.git("rev-parse", "--verify", "--quiet", rev+"^{commit}"); err != nil {
		return nil, fail(exitInput, "base %s: git knows no such commit", quoteArg(rev)).withHint("in a shallow clone, git fetch --depth=1 origin brings it")
	}
	var err error
	if b.has, err = b.files("ls-tree", "-r", "-z", "--name-only", rev, "."); err != nil {
		return nil, err
	}
	b.changed, err = b.files("diff", "--name-only", "-z", "--relative", "--no-renames", rev, "--", ".")
	return b, err
}

// git runs a git command in the folder and returns what it says.
func (b *baseline) git(args ...string) ([]byte, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = b.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, fail(exitInput, "there is no git command, which comparing with a base needs")
	case err != nil:
		return nil, fail(exitInput, "git %s: %s", args[0], strings.TrimPrefix(firstLine(strings.TrimSpace(stderr.String())), "fatal: "))
	}
	return out, nil
}

// files returns the names that a git command lists.
func (b *baseline) files(args ...string) (map[string]bool, error) {
	out, err := b.git(args...)
	if err != nil {
		return nil, err
	}
	set := map[string]bool{}
	for name := range strings.SplitSeq(string(out), "\x00") {
		if name != "" {
			set[path.Clean(name)] = true
		}
	}
	return set, nil
}

// of says how a file stands to the base.
func (b *baseline) of(name string) string {
	switch {
	case !b.has[name]:
		return isNew
	case b.changed[name]:
		return isChanged
	}
	return isSame
}

// source is a file as the base has it.
func (b *baseline) source(name string) source {
	return source{arg: revisionPrefix + b.rev + ":" + name, name: path.Base(name), revision: b.rev + ":./" + name, dir: b.dir}
}
