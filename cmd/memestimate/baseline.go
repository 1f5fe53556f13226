package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/memestimate/memestimate/forge"
	"github.com/memestimate/memestimate/git"
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
	own    bool   // it is the very commit that is checked out
	files  map[string]git.File

	origins func() []*origin // files that are gone since
}

// newBaseline finds the commit that is compared with: a revision, or what a pull request starts from, what a push
// found, or HEAD. It is fetched where the clone lacks it and that is wanted.
func newBaseline(dir, rev string, job forge.Job, fetch bool) (*baseline, error) {
	repo, err := git.Open(dir)
	if err != nil {
		return nil, fail(exitInput, "the base that growth is measured from: %w", err)
	}
	b := &baseline{repo: repo, dir: dir, rev: rev}
	b.origins = sync.OnceValue(b.gone)
	out, err := repo.Commit("HEAD")
	if err != nil {
		return nil, fail(exitInput, "the base that growth is measured from: HEAD: %w", err)
	}
	b.head = out
	pull := git.Pull{Head: job.Head, Target: job.Target, Start: job.Start, Merge: job.Merge}
	start := "" // of the pull request
	if job.Pull() && (pull.Target != "" || pull.Start != "" || pull.Merge != "") {
		var last string
		if start, last, err = repo.PullBase(pull, fetch); err == nil {
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
		if within, known := repo.IsAncestor(b.commit, out); start != "" && within && known && b.commit != start {
			if before, known := repo.IsAncestor(b.commit, start); known && !before {
				return nil, fail(exitInput,
					"base %s: is a commit of the pull request itself, from which nothing of it can be seen to grow", quoteArg(rev))
			}
		}
	case start != "":
		b.commit = start
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
	if err != nil {
		return past{}, fmt.Errorf("%s in the base: %w", quoteArg(p.name), err)
	}
	if same {
		p.state = isSame
	}
	return p, nil
}

// source is a file of the base as a model.
func (b *baseline) source(name string, f git.File) source {
	return source{arg: name, name: path.Base(name), revision: b.commit + ":./" + name, kept: &kept{b.repo, f, name}}
}

// An origin is a file of the base that is gone, and may have moved.
type origin struct {
	name string
	file git.File
	read func() parts // of its graph; nil where it cannot be read
}

// maxOrigins is how many files that are gone are looked at.
const maxOrigins = 500

// gone lists the files of the base that the work tree no longer has and whose names end as those of models do.
func (b *baseline) gone() (out []*origin) {
	for name, f := range b.files {
		if f.Kind != git.Regular || !modelName(name) || len(out) == maxOrigins {
			continue
		}
		if _, err := os.Lstat(filepath.Join(b.dir, filepath.FromSlash(name))); !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		out = append(out, &origin{name: name, file: f, read: sync.OnceValue(func() parts {
			m, err := b.source(name, f).openRevision()
			if err != nil {
				return nil
			}
			defer m.Close()
			return partsOf(m)
		})})
	}
	return out
}

// modelName reports whether a file is named as models are.
func modelName(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".onnx", ".onnxtxt", ".pb", ".pbtxt", ".textproto", ".prototxt", ".json", ".mrec":
		return true
	}
	return false
}

// How alike two graphs are, from 0 to 1, that are taken for one that moved: less where the file kept its name.
const (
	alike      = 0.5
	alikeNamed = 0.2
)

// movedFrom returns the file that is gone and is the most like a model, by its graph and by its path; nil where none
// is like it.
func (b *baseline) movedFrom(name string, head *onnxload.Model) (best *origin) {
	var mine parts
	most := 0.0
	for _, o := range b.origins() {
		if mine == nil {
			mine = partsOf(head)
		}
		least, score := alike, 0.0
		if path.Base(o.name) == path.Base(name) {
			least, score = alikeNamed, 0.25
		}
		if path.Dir(o.name) == path.Dir(name) {
			score += 0.1
		}
		like := mine.like(o.read())
		score += like
		if like >= least && (score > most || score == most && best != nil && o.name < best.name) {
			best, most = o, score
		}
	}
	return best
}

// parts are what a graph consists of, each with how often it is there.
type parts map[string]int

// partsOf takes a graph apart into operators with those that follow, and the shapes of its weights.
func partsOf(m *onnxload.Model) parts {
	out := parts{}
	if m == nil { // a recording
		return out
	}
	before := ""
	for i := range m.Graph.Nodes {
		op := m.Graph.Nodes[i].Op
		out[before+">"+op]++
		before = op
	}
	for _, id := range m.Graph.Inits {
		if t := m.Values[id].Init; t != nil && len(t.Dims) > 1 {
			out[fmt.Sprint(t.Dims)]++
		}
	}
	return out
}

// like is the share of the parts that two graphs have in common.
func (p parts) like(o parts) float64 {
	common, all := 0, 0
	for k, n := range p {
		common += min(n, o[k])
		all += max(n, o[k])
	}
	for k, n := range o {
		if p[k] == 0 {
			all += n
		}
	}
	if all == 0 {
		return 0
	}
	return float64(common) / float64(all)
}
