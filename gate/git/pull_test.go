package git

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// A site is an origin with a branch that went on after another parted from it, and the host's merge of both.
type site struct {
	*testing.T
	origin string
	// Commits: where they part, the last of main, of the branch, their merge, and a merge of the branch with a commit that
	// is on no branch.
	start, main, head, merge, evil string
}

func (s *site) git(dir string, args ...string) string {
	s.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c",
		"init.defaultBranch=main", "-c", "protocol.file.allow=always"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func newSite(t *testing.T) *site {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	s := &site{T: t, origin: t.TempDir()}
	s.git(s.origin, "init", "-q")
	s.git(s.origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	commit := func(file string) string {
		must.Write(t, filepath.Join(s.origin, file), []byte(file))
		s.git(s.origin, "add", ".")
		s.git(s.origin, "commit", "-qm", file)
		return s.git(s.origin, "rev-parse", "HEAD")
	}
	for _, file := range []string{"a", "b", "c"} {
		s.start = commit(file)
	}
	s.git(s.origin, "checkout", "-qb", "topic")
	commit("d")
	s.head = commit("e")
	s.git(s.origin, "checkout", "-q", "main")
	s.main = commit("f")
	s.git(s.origin, "checkout", "-q", "--detach")
	s.git(s.origin, "merge", "-q", "--no-ff", "-m", "m", "topic")
	s.merge = s.git(s.origin, "rev-parse", "HEAD")
	s.git(s.origin, "update-ref", "refs/pull/7/merge", s.merge)
	s.git(s.origin, "checkout", "-q", "--detach", s.start)
	commit("g")
	s.git(s.origin, "merge", "-q", "--no-ff", "-m", "m", "topic")
	s.evil = s.git(s.origin, "rev-parse", "HEAD")
	s.git(s.origin, "update-ref", "refs/evil", s.evil)
	s.git(s.origin, "checkout", "-q", "main")
	return s
}

// clone checks one commit out, with so much history; 0 is all of it.
func (s *site) clone(commit string, depth string) *Repo {
	s.Helper()
	dir := s.TempDir()
	s.git(dir, "init", "-q")
	s.git(dir, "remote", "add", "origin", "file://"+s.origin)
	if depth == "" {
		s.git(dir, "fetch", "-q", "origin", "+refs/*:refs/remotes/origin/*", "+refs/heads/*:refs/remotes/origin/*")
	} else {
		s.git(dir, "fetch", "-q", "--depth="+depth, "origin", commit)
	}
	s.git(dir, "checkout", "-q", "--detach", commit)
	r, err := Open(dir)
	if err != nil {
		s.Fatal(err)
	}
	return r
}

// Whatever is checked out, and however shallow, the base is what the pull request starts from: what main got since is
// never taken for a change of it.
func TestPullBase(t *testing.T) {
	s := newSite(t)
	full := func(commit string) Pull { return Pull{Head: s.head, Target: "main", Merge: commit} }
	for _, tt := range []struct {
		name, checkout, depth string
		pull                  Pull
		want                  string
	}{
		{"GitHub's merge", s.merge, "", full(s.merge), s.main},
		{"GitHub's merge, shallow", s.merge, "1", full(s.merge), s.main},
		{"GitHub's merge of a head that moved since", s.merge, "1", Pull{Head: s.start, Target: "main", Merge: s.merge},
			s.main},
		{"the branch itself", s.head, "", full(""), s.start},
		{"the branch itself, shallow", s.head, "1", full(""), s.start},
		{"the branch itself, where the host says the start", s.head, "1", Pull{Head: s.head, Target: "main", Start: s.start},
			s.start},
		{"a merge of which the host does not name the last commit", s.merge, "1", Pull{Target: "main", Merge: s.merge}, s.main},
		{"the branch itself, where the host names no merge", s.head, "", Pull{Head: s.head, Target: "main"}, s.start},
		{"something else", s.main, "", full(s.merge), ""},
		{"a merge that the host does not name, of the target", s.merge, "1", Pull{Head: s.head, Target: "main"}, s.main},
		{"a merge of the last commit with one of its author's", s.evil, "1", Pull{Head: s.head, Target: "main"}, ""},
		{"the same, with all of the history", s.evil, "", Pull{Head: s.head, Target: "main", Merge: s.merge}, ""},
		{"a target that is gone", s.head, "", Pull{Head: s.head, Target: "nosuch"}, ""},
	} {
		base, head, err := s.clone(tt.checkout, tt.depth).PullBase(tt.pull, true)
		switch {
		case tt.want == "" && err == nil:
			t.Errorf("%s: %s, want an error", tt.name, base)
		case tt.want != "" && (err != nil || base != tt.want || head != s.head):
			t.Errorf("%s: %.7s...%.7s, %v, want %.7s...%.7s", tt.name, base, head, err, tt.want, s.head)
		}
	}
	// Without leave to fetch, a shallow clone is an error.
	for _, checkout := range []string{s.merge, s.head} {
		if base, _, err := s.clone(checkout, "1").PullBase(full(s.merge), false); err == nil {
			t.Errorf("%.7s without fetching: %s", checkout, base)
		}
	}
}

// A branch that the clone lacks is fetched by its name, into a shallow clone and into a whole one, which stays whole.
func TestFetch(t *testing.T) {
	s := newSite(t)
	s.git(s.origin, "tag", "main", s.head) // which anybody could have made
	for _, depth := range []string{"1", "3"} {
		r := s.clone(s.head, depth)
		if _, err := r.Commit("main"); err == nil {
			t.Error("a shallow clone of another branch has main")
		}
		if got, err := r.Fetch("main"); err != nil || got != s.main {
			t.Errorf("main is %s, %v, want %s", got, err, s.main)
		}
		if got, err := r.Fetch(s.start); err != nil || got != s.start {
			t.Errorf("%s, %v, want %s", got, err, s.start)
		}
	}
	whole := s.clone(s.main, "")
	if _, err := whole.Fetch("topic"); err != nil || whole.shallow() {
		t.Errorf("%v, shallow %v", err, whole.shallow())
	}
	for _, bad := range []string{"nosuch", "HEAD~1", "main:x", "+main", "*", "--upload-pack=x", "^main", "@{1}", ""} {
		if got, err := whole.Fetch(bad); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}

// Names of commits are names of one commit.
func TestCommit(t *testing.T) {
	s := newSite(t)
	r := s.clone(s.main, "")
	for rev, want := range map[string]string{"HEAD": s.main, "HEAD~1": s.start, "topic": s.head, "main": s.main,
		s.start: s.start, s.start[:10]: s.start} {
		if got, err := r.Commit(rev); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", rev, got, err, want)
		}
	}
	for _, bad := range []string{"", "-x", "--all", "^HEAD", "HEAD^@", "HEAD^!", "HEAD..main", "main...topic", ":/x",
		":a", "HEAD\nmain", "HEAD:a", "nosuch", "\x7f"} {
		if got, err := r.Commit(bad); err == nil {
			t.Errorf("%q is %s", bad, got)
		}
	}
}

// No branch passes for what its name stands for already: not in a clone that knows which branch origin shows, and not
// where somebody has pushed branches with such names.
func TestCommitOfOddBranches(t *testing.T) {
	s := newSite(t)
	s.git(s.origin, "update-ref", "refs/heads/origin/main", s.head)
	s.git(s.origin, "update-ref", "refs/heads/FETCH_HEAD", s.head)
	s.git(s.origin, "update-ref", "refs/heads/refs/remotes/origin/main", s.head)
	s.git(s.origin, "update-ref", "refs/heads/"+s.start, s.head)
	dir := s.TempDir()
	s.git(dir, "clone", "-q", "file://"+s.origin, ".")
	s.git(dir, "commit", "-qm", "of our own", "--allow-empty")
	own := s.git(dir, "rev-parse", "HEAD")
	r, err := Open(dir)
	must.OK(t, err)
	for rev, want := range map[string]string{"HEAD": own, "@": own, "HEAD~1": s.main, "HEAD^": s.main, "HEAD@{0}": own,
		"origin/main": s.main, "refs/remotes/origin/main": s.main, "origin/topic": s.head, s.start: s.start} {
		if got, err := r.Commit(rev); err != nil || got != want {
			t.Errorf("%s is %s, %v, want %s", rev, got, err, want)
		}
	}
	for name, want := range map[string]string{"main": s.main, "origin/main": s.main, s.start: s.start} {
		if got, err := r.Fetch(name); err != nil || got != want {
			t.Errorf("fetched, %s is %s, %v, want %s", name, got, err, want)
		}
	}
}

// What git takes for its folder is not what somebody committed.
func TestPlanted(t *testing.T) {
	for _, tt := range []struct {
		gitDir, top string
		want        bool
	}{
		{"/r/.git", "/r", false},
		{"/r/.git/worktrees/x", "/elsewhere/x", false},
		{"/r/.git/modules/sub", "/r/sub", false},
		{"/kept/r.git", "/r", false},
		{"/r/sub", "/r/sub", true},
		{"/r/sub", "/r", true},
		{"/r/sub/x.git", "/r", true},
	} {
		if got := planted(tt.gitDir, tt.top); got != tt.want {
			t.Errorf("%s for %s: %v", tt.gitDir, tt.top, got)
		}
	}
}

// A hook of a server runs in a repository without a work tree, which its surroundings name.
func TestOpenBare(t *testing.T) {
	s := newSite(t)
	dir := s.TempDir()
	s.git(dir, "clone", "-q", "--bare", "file://"+s.origin, ".")
	if _, err := Open(dir); err == nil {
		t.Error("a repository of plain files is opened that nobody named")
	}
	t.Setenv("GIT_DIR", dir)
	r, err := Open(dir)
	must.OK(t, err)
	if got, err := r.Commit("main"); err != nil || got != s.main {
		t.Errorf("main is %s, %v, want %s", got, err, s.main)
	}
}
