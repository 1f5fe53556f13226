package gate

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/gate/git"
	"github.com/memestimate/memestimate/report"
)

// A base is the commit that files of a folder are compared with.
type base struct {
	repo   *git.Repo
	dir    string
	fetch  bool
	rev    string // as somebody named it; "" where the surroundings did
	commit string
	head   string // the commit that is checked, of a pull request the last one of its branch
	own    bool   // commit is what is checked out
	files  map[string]git.File

	gone    func() []*candidate // files that are gone since
	came    func() *arrivals    // files that are new or have changed
	skipped func() []string     // files that git does not look for here
}

// newBase finds the commit that is compared with: what --base names, what the budget file names where it did so before
// this change, or where this change begins.
func (c *Check) newBase(f *budget.File, job forge.Job) (*base, error) {
	const what = "the base that growth is measured from"
	repo, err := git.Open(filepath.Dir(f.Path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	b := &base{repo: repo, dir: filepath.Dir(f.Path), fetch: c.Fetch}
	b.gone, b.came = sync.OnceValue(b.findGone), sync.OnceValue(b.findCame)
	b.skipped = sync.OnceValue(func() []string {
		names, _ := repo.Skipped() // what is wrong is told of what came
		return slices.DeleteFunc(names, func(name string) bool { _, err := os.Stat(b.path(name)); return err == nil })
	})
	out, err := repo.Commit("HEAD")
	if err != nil {
		return nil, fmt.Errorf("%s: HEAD: %w", what, err)
	}
	b.head = out
	start, noStart := b.start(job, out)
	switch {
	case c.Base != "":
		b.rev = c.Base
	case f.Base.Text == "" || job.CI && noStart == nil && !b.says(start, f):
		// Nothing is named, or this change names it: it could name a commit that has grown already.
		if f.Base.Text != "" {
			if _, err = b.named(f.Base.Text); err != nil {
				return nil, f.At(f.Base.Line, "%w", err)
			}
		}
		if b.commit = start; noStart != nil {
			return nil, noStart
		}
	default:
		b.rev = f.Base.Text
	}
	if b.rev != "" {
		if err = b.name(job, start, out); err == nil && c.Base == "" && job.CI && noStart != nil && !b.says(b.commit, f) {
			err = &hinted{fmt.Errorf("base %s: its own budget file does not say so", report.QuoteArg(b.rev)),
				"where it is meant, merge that line of the budget file first, or give --base"}
		}
		if err != nil && c.Base == "" {
			err = f.At(f.Base.Line, "%w", err)
		}
		if err != nil {
			return nil, err
		}
	}
	b.own = b.commit == out
	if b.files, err = repo.Files(b.commit); err != nil {
		return nil, fmt.Errorf("base %.12s: %w", b.commit, err)
	}
	return b, nil
}

// name makes what somebody named the base, unless it is a commit of the pull request itself.
func (b *base) name(job forge.Job, start, out string) (err error) {
	if b.commit, err = b.named(b.rev); err != nil || !job.Pull() || start == "" || b.commit == start {
		return err
	}
	within, known := b.repo.IsAncestor(b.commit, out)
	before, sure := b.repo.IsAncestor(b.commit, start)
	if within && known && sure && !before {
		return fmt.Errorf("base %s: is a commit of the pull request itself, from which nothing of it can be seen to grow",
			report.QuoteArg(b.rev))
	}
	return nil
}

// start is where the change begins that a job checks: what a pull request starts from, what a push found, where the
// branch parts from the one that the repository shows, or on that one the commit before. Outside of CI it is HEAD.
func (b *base) start(job forge.Job, out string) (string, error) {
	switch {
	case job.Pull() && (job.Target != "" || job.Start != "" || job.Merge != ""):
		pull := git.Pull{Head: job.Head, Target: job.Target, Start: job.Start, Merge: job.Merge}
		start, last, err := b.repo.PullBase(pull, b.fetch)
		if err != nil {
			return "", b.missing("what the pull request starts from", err)
		}
		b.head = last
		return start, nil
	case job.Before != "":
		return b.named(job.Before)
	case !job.CI:
		return out, nil
	case job.Default == "":
		return "", &hinted{errors.New("what the models are compared with is not known here"),
			"--base says it, as in --base origin/main"}
	}
	target, err := b.named(job.Default)
	if err != nil {
		return "", err
	}
	start, err := b.repo.MergeBase(out, target, b.fetch)
	if err != nil {
		return "", b.missing("where this branch parts from "+report.QuoteArg(job.Default), err)
	}
	if start != out {
		return start, nil
	}
	parents, err := b.repo.Parents(out)
	if err != nil || len(parents) == 0 {
		return out, err
	}
	return b.named(parents[0])
}

// says reports whether the budget file of a commit names the same base as now.
func (b *base) says(commit string, f *budget.File) bool {
	was := *b
	was.commit = commit
	var err error
	if was.files, err = b.repo.Files(commit); err != nil {
		return false
	}
	old, _ := was.budgetFile(f)
	return old != nil && old.Base.Text == f.Base.Text
}

// named returns the commit of this name, from origin where it is not here.
func (b *base) named(rev string) (string, error) {
	if err := git.CheckRevision(rev); err != nil {
		return "", fmt.Errorf("base %s %w", report.QuoteArg(rev), err)
	}
	commit, err := b.repo.Commit(rev)
	if err == nil && b.repo.Has(commit) {
		return commit, nil
	}
	if b.fetch && !errors.Is(err, git.ErrNoCommand) {
		commit, err = b.repo.Fetch(rev)
	} else if err == nil {
		err = errors.New("the clone does not have its files")
	}
	if err != nil {
		return "", b.missing("base "+report.QuoteArg(rev), err)
	}
	return commit, nil
}

// missing says that a commit is not here, and how it would come.
func (b *base) missing(what string, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	if b.fetch || errors.Is(err, git.ErrNoCommand) {
		return err
	}
	return &hinted{err, "in a shallow clone, --fetch brings it"}
}

// file returns what the base has under a name; false when it has nothing there. Why is then more than that, where more
// is known.
func (b *base) file(name string) (f git.File, ok bool, why string, err error) {
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

// budgetFile reads the budget file as the base has it; nil, and why, where that is not to be had.
func (b *base) budgetFile(f *budget.File) (*budget.File, string) {
	name := filepath.Base(f.Path)
	in, ok, _, err := b.file(name)
	if err == nil && !ok {
		return nil, "the base has no " + report.QuoteArg(name)
	}
	var data []byte
	if err == nil {
		err = b.blob(name, in).Read(func(r io.Reader) (err error) {
			if data, err = io.ReadAll(io.LimitReader(r, budget.MaxSize+1)); err == nil && len(data) > budget.MaxSize {
				err = fmt.Errorf("more than %d bytes", budget.MaxSize)
			}
			return err
		})
	}
	if err != nil {
		return nil, fmt.Sprintf("%s of the base cannot be read: %v", report.QuoteArg(name), err)
	}
	old, err := budget.Parse(name, data)
	if err != nil {
		return nil, fmt.Sprintf("in the base, %v", err)
	}
	return old, ""
}

// A Blob is a file that a commit has.
type Blob struct {
	Name   string // from the folder that the repository was found from
	Commit string

	repo *git.Repo
	file git.File
}

func (b *base) blob(name string, f git.File) *Blob { return &Blob{name, b.commit, b.repo, f} }

// FindBlob finds a file of a revision, both as somebody typed them: the path is from the top of the repository that the
// current folder is in, or from that folder where it begins with "./".
func FindBlob(rev, file string) (*Blob, error) {
	repo, err := git.Open(".")
	if err != nil {
		return nil, err
	}
	commit, err := repo.Commit(rev)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", report.QuoteArg(rev), err)
	}
	f, err := repo.Find(commit, file)
	return &Blob{file, commit, repo, f}, err
}

// Read has the file's content read, through git-lfs where that keeps it and is installed.
func (b *Blob) Read(read func(io.Reader) error) error {
	content, err := b.repo.Open(b.file.ID, b.Name)
	if err != nil {
		return err
	}
	readErr := read(content)
	if err := content.Close(); err != nil { // what git complains of is why it could not be read
		return err
	}
	return readErr
}
