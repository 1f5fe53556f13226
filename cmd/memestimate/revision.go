package main

import (
	"bytes"
	"errors"
	"os/exec"
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

// openRevision reads a model from git. Filters run, so that what git-lfs keeps is found where git-lfs is
// installed; weights beside the model are not read, here as everywhere.
func (s source) openRevision() (*onnxload.Model, error) {
	rev, file, ok := strings.Cut(s.revision, ":")
	if !ok || rev == "" || file == "" || strings.HasPrefix(rev, "-") {
		return nil, usagef("%s: want git:REV:PATH, as in git:origin/main:models/net.onnx", quoteArg(s.arg))
	}
	cmd := exec.Command("git", "cat-file", "--filters", s.revision)
	cmd.Dir = s.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fail(exitInput, "%s: %w", quoteArg(s.arg), err)
	}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			return nil, fail(exitInput, "%s: there is no git command", quoteArg(s.arg))
		}
		return nil, fail(exitInput, "%s: git: %w", quoteArg(s.arg), err)
	}
	m, readErr := onnxload.ReadStream(out, onnxload.Options{Path: s.arg})
	out.Close() // what the reader left is of no use, and git must not wait
	err = cmd.Wait()
	if text := strings.TrimSpace(stderr.String()); err != nil && text != "" {
		if m != nil {
			m.Close()
		}
		return nil, fail(exitInput, "%s: git: %s", quoteArg(s.arg), strings.TrimPrefix(firstLine(text), "fatal: "))
	}
	return m, inputError(readErr)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
