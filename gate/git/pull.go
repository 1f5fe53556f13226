package git

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Fetch brings a branch, a tag or a commit from origin, and returns the commit. A shallow clone stays shallow.
func (r *Repo) Fetch(name string) (string, error) {
	name = strings.TrimPrefix(name, "origin/")
	if err := CheckRevision(name); err != nil {
		return "", err
	}
	if strings.ContainsAny(name, "^~:?*[\\ +@{") {
		return "", errors.New("is not a branch, a tag or a commit, which can be fetched")
	}
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules"}
	if r.shallow() {
		args = append(args, "--depth=1")
	}
	args = append(args, "origin")
	refs := []string{"refs/heads/" + name, "refs/tags/" + name}
	if objectName().MatchString(name) {
		refs = []string{name}
	}
	var first error
	for _, ref := range refs {
		_, err := r.run(append(args, ref)...)
		if err == nil {
			return r.Commit("FETCH_HEAD")
		}
		first = cmp.Or(first, err)
	}
	return "", first
}

// steps are by how many commits a shallow clone is deepened to find where two branches part.
var steps = []string{"50", "500", "5000"}

// MergeBase returns the commit at which two commits part. With fetch, a shallow clone is deepened until it has it.
func (r *Repo) MergeBase(a, b string, fetch bool) (string, error) {
	for i := 0; ; i++ {
		out, err := r.line("merge-base", a, b)
		if err == nil && objectName().MatchString(out) {
			return out, nil
		}
		if !r.shallow() {
			return "", errors.New("the two have no commit in common")
		}
		if !fetch {
			return "", errors.New("the clone is too shallow to tell where the two part")
		}
		deepen := "--unshallow"
		if i < len(steps) {
			deepen = "--deepen=" + steps[i]
		}
		if _, err := r.run("fetch", "--quiet", "--no-tags", "--no-recurse-submodules", deepen, "origin", a, b); err != nil {
			return "", err
		}
	}
}

// A Pull is what is known of a pull request whose code is checked out.
type Pull struct {
	Head   string // the last commit of its branch; "" where the host does not say
	Target string // the branch that it is to be merged into
	Start  string // the commit at which it parts from the target, where the host says so
	Merge  string // the host's own merge of both; "" where it makes none
}

// PullBase returns the commit that the files of a pull request are compared with: the target that it was merged into
// where a merge is checked out, else the commit at which it parts from its target. It is never the target as it was
// when the pull request was opened: what others have merged since would be taken for a change of this one. It returns
// the last commit of the pull request too.
func (r *Repo) PullBase(p Pull, fetch bool) (base, head string, err error) {
	if head, err = r.Commit("HEAD"); err != nil {
		return "", "", err
	}
	parents, err := r.Parents(head)
	if err != nil {
		return "", "", err
	}
	if len(parents) == 2 && head != p.Head && (head == p.Merge || parents[1] == p.Head) {
		base, err = r.mergedTarget(p, head, parents[0], fetch)
		return base, parents[1], err
	}
	if p.Head != "" && head != p.Head {
		return "", "", fmt.Errorf("what is checked out, %.12s, is neither the pull request's last commit, "+
			"%.12s, nor its merge", head, p.Head)
	}
	if p.Start != "" {
		base, err = r.bring(p.Start, fetch)
		return base, head, err
	}
	target, err := r.target(p, fetch)
	if err != nil {
		return "", "", err
	}
	base, err = r.MergeBase(head, target, fetch)
	return base, head, err
}

// mergedTarget returns the side of a merge that is its target. Where the host does not say that the merge is its own,
// that side must be a commit of the target: anybody can merge a commit of theirs with the pull request's last one, and
// push that while a job starts.
func (r *Repo) mergedTarget(p Pull, merge, side string, fetch bool) (string, error) {
	if merge == p.Merge {
		return r.bring(side, fetch)
	}
	target, err := r.target(p, fetch)
	if err != nil {
		return "", err
	}
	common, err := r.MergeBase(side, target, fetch) // which deepens a shallow clone until it is known
	if err == nil && common != side {
		err = fmt.Errorf("what is checked out, %.12s, merges %.12s, which is no commit of the target %s", merge, side,
			p.Target)
	}
	if err != nil {
		return "", err
	}
	return r.bring(side, fetch)
}

// target returns the last commit of the branch that a pull request is to be merged into.
func (r *Repo) target(p Pull, fetch bool) (string, error) {
	target, err := r.Commit("refs/remotes/origin/" + p.Target)
	if err != nil && fetch {
		target, err = r.Fetch(p.Target)
	}
	if err != nil {
		return "", fmt.Errorf("the target %s: %w", p.Target, err)
	}
	return target, nil
}

// bring returns a commit that the clone has or can fetch.
func (r *Repo) bring(commit string, fetch bool) (string, error) {
	if r.Has(commit) {
		return commit, nil
	}
	if !fetch {
		return "", fmt.Errorf("the clone does not have the commit %.12s", commit)
	}
	return r.Fetch(commit)
}
