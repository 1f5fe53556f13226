package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/onnxload"
)

// How a model stands to its base.
const (
	isSame    = "same"
	isChanged = "changed"
	isNew     = "new"
)

// A baseline is the commit that files of a folder are compared with.
type baseline struct {
	repo   *git.Repo
	dir    string
	rev    string // as somebody named it; "" where the surroundings did
	commit string
	head   string // the commit that is checked, of a pull request the last one of its branch
	pull   git.Pull
	start  string // of the pull request; "" where there is none
	own    bool   // it is the very commit that is checked out
	files  map[string]git.File

	origins func() []*origin // files that are gone since
	strays  func() []*origin // files that are new or have changed
}

// newBaseline finds the commit that is compared with: a revision, or what a pull request starts from, what a push
// found, or HEAD. It is fetched where the clone lacks it and that is wanted.
func newBaseline(dir, rev string, job forge.Job, fetch bool) (*baseline, error) {
	repo, err := git.Open(dir)
	if err != nil {
		return nil, fail(exitInput, "the base that growth is measured from: %w", err)
	}
	b := &baseline{repo: repo, dir: dir, rev: rev}
	b.origins, b.strays = sync.OnceValue(b.gone), sync.OnceValue(b.stray)
	out, err := repo.Commit("HEAD")
	if err != nil {
		return nil, fail(exitInput, "the base that growth is measured from: HEAD: %w", err)
	}
	b.head = out
	b.pull = git.Pull{Head: job.Head, Target: job.Target, Start: job.Start, Merge: job.Merge}
	if job.Pull() && (job.Target != "" || job.Start != "" || job.Merge != "") {
		var last string
		if b.start, last, err = repo.PullBase(b.pull, fetch); err == nil {
			b.head = last
		}
		if err != nil && rev == "" {
			return nil, b.missing("what the pull request starts from", err, fetch)
		}
	}
	switch {
	case rev != "":
		if b.commit, err = b.named(rev, fetch); err != nil {
			return nil, err
		}
		if within, known := repo.IsAncestor(b.commit, out); b.start != "" && within && known && b.commit != b.start {
			if before, known := repo.IsAncestor(b.commit, b.start); known && !before {
				return nil, fail(exitInput,
					"base %s: is a commit of the pull request itself, from which nothing of it can be seen to grow", quoteArg(rev))
			}
		}
	case b.start != "":
		b.commit = b.start
	case job.Before != "":
		if b.commit, err = b.named(job.Before, fetch); err != nil {
			return nil, err
		}
	case job.CI:
		if b.commit, err = b.unsaid(job, fetch); err != nil {
			return nil, err
		}
	default:
		b.commit = out
	}
	b.own = b.commit == out
	if b.files, err = repo.Files(b.commit); err != nil {
		return nil, fail(exitInput, "base %.12s: %w", b.commit, err)
	}
	return b, nil
}

// unsaid is the base in a job that is neither for a pull request nor for a push of which it is known what was there:
// where the branch parts from the one that the repository shows, or on that one the commit before.
func (b *baseline) unsaid(job forge.Job, fetch bool) (string, error) {
	if job.Default == "" {
		return "", fail(exitInput, "what the models are compared with is not known here").withHint(
			"--base says it, as in --base origin/main")
	}
	target, err := b.named(job.Default, fetch)
	if err != nil {
		return "", err
	}
	head, err := b.repo.Commit("HEAD")
	if err != nil {
		return "", err
	}
	start, err := b.repo.MergeBase(head, target, fetch)
	if err != nil {
		return "", b.missing("where this branch parts from "+quoteArg(job.Default), err, fetch)
	}
	if start != head {
		return start, nil
	}
	parents, err := b.repo.Parents(head)
	if err != nil || len(parents) == 0 {
		return head, err
	}
	return b.named(parents[0], fetch)
}

// believe refuses a base that a pull request gives itself in its budget file, unless it is a commit of the branch that
// the request is to be merged into: a pull request could name one of its own, or of another branch, that has grown
// already.
func (b *baseline) believe(f *budget.File, fetch bool) error {
	if b.start == "" || b.commit == b.start {
		return nil
	}
	was := *b // as it would be if nothing were said
	was.commit = b.start
	var err error
	if was.files, err = b.repo.Files(b.start); err != nil {
		return fail(exitInput, "what the pull request starts from, %.12s: %w", b.start, err)
	}
	if old, _ := was.budgetFile(f); old != nil && old.Base.Text == f.Base.Text {
		return nil
	}
	known, err := b.repo.InTarget(b.pull, b.commit, fetch)
	if err == nil && known {
		return nil
	}
	return fail(exitInput, "base %s: this pull request sets it, and it is no commit of %s", quoteArg(f.Base.Text),
		quoteArg(b.pull.Target)).withHint("where it is meant, merge that line of the budget file first, or give --base")
}

// named returns the commit of this name, from origin where it is not here.
func (b *baseline) named(rev string, fetch bool) (string, error) {
	if err := git.CheckRevision(rev); err != nil {
		return "", usagef("base %s %w", quoteArg(rev), err)
	}
	commit, err := b.repo.Commit(rev)
	if err == nil && b.repo.Has(commit) {
		return commit, nil
	}
	if fetch && !errors.Is(err, git.ErrNoCommand) {
		commit, err = b.repo.Fetch(rev)
	} else if err == nil {
		err = errors.New("the clone does not have its files")
	}
	if err != nil {
		return "", b.missing("base "+quoteArg(rev), err, fetch)
	}
	return commit, nil
}

// missing says that a commit is not here, and how it would come.
func (b *baseline) missing(what string, err error, fetched bool) error {
	x := fail(exitInput, "%s: %w", what, err)
	if fetched || errors.Is(err, git.ErrNoCommand) {
		return x
	}
	return x.withHint("in a shallow clone, --fetch brings it")
}

// file returns what the base has under a name; false when it has nothing there. Why is then more than that, where more
// is known.
func (b *baseline) file(name string) (f git.File, ok bool, why string, err error) {
	f, ok = b.files[name]
	if ok && f.Kind == git.Regular {
		return f, true, "", nil
	}
	if ok && f.Kind == git.Link {
		f, err = b.repo.Find(b.commit, "./"+name)
		return f, err == nil, "", err
	}
	for above := path.Dir(name); above != "." && above != "/"; above = path.Dir(above) {
		switch x := b.files[above]; x.Kind {
		case git.Submodule:
			return f, false, fmt.Sprintf("%s is a submodule, of which the base says no more than its commit", above), nil
		case git.Link:
			f, err = b.repo.Find(b.commit, "./"+name)
			return f, err == nil, "", nil
		}
	}
	return f, false, "the base has no such model, and none that was moved", nil
}

// text returns a small file of the base; false when it has none.
func (b *baseline) text(name string, limit int64) ([]byte, bool, error) {
	f, ok, _, err := b.file(name)
	if !ok || err != nil {
		return nil, false, err
	}
	content, err := b.repo.Open(f.ID, name)
	if err != nil {
		return nil, true, err
	}
	data, err := io.ReadAll(io.LimitReader(content, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("more than %d bytes", limit)
	}
	return data, true, errors.Join(err, content.Close())
}

// A past is what the base has of a model.
type past struct {
	state string
	name  string // in the base
	file  git.File
	why   string // there is none, where state is isNew
}

// of says how a model stands to the base. head is the model, from which one that was moved is known again.
func (b *baseline) of(c *checked, head *onnxload.Model) (past, error) {
	if c.in.file == "" {
		return past{state: isSame, name: c.name}, nil // built in
	}
	f, ok, why, err := b.file(c.name)
	if err != nil {
		return past{}, fmt.Errorf("%s in the base: %w", quoteArg(c.name), err)
	}
	p := past{state: isChanged, name: c.name, file: f}
	if !ok {
		from := (*origin)(nil)
		if !c.entry.IsNew(c.name) {
			from = b.movedFrom(c.name, head)
		}
		if from == nil {
			return past{state: isNew, why: why}, nil
		}
		p.name, p.file = from.name, from.file
	}
	same, err := b.repo.Same(c.in.file, p.file)
	if err == nil && same && head != nil {
		same, err = b.sameBeside(c, p.name, head.Beside)
	}
	if err != nil {
		return past{}, fmt.Errorf("%s in the base: %w", quoteArg(p.name), err)
	}
	if same {
		p.state = isSame
	}
	return p, nil
}

// sameBeside reports whether the files beside a model, which hold values that may decide its shapes, are those of the
// base, where the model has a name of its own.
func (b *baseline) sameBeside(c *checked, name string, beside []string) (bool, error) {
	if len(beside) == 0 {
		return true, nil
	}
	dir := filepath.Dir(c.in.file)
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	for _, location := range beside {
		local := filepath.FromSlash(location)
		if !filepath.IsLocal(local) {
			continue // which is never read
		}
		old, before, _, err := b.file(path.Join(path.Dir(name), location))
		if err != nil {
			return false, err
		}
		st, err := root.Stat(local)
		if now := err == nil && st.Mode().IsRegular(); now != before {
			return false, nil
		} else if !now {
			continue // nobody reads it, then or now
		}
		if same, err := b.repo.Same(filepath.Join(dir, local), old); !same || err != nil {
			return false, err
		}
	}
	return true, nil
}

// source is a file of the base as a model.
func (b *baseline) source(name string, f git.File) source {
	return source{arg: name, name: path.Base(name), revision: b.commit + ":./" + name, kept: &kept{b.repo, f, name}}
}
