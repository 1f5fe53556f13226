// Package git asks the repository that a folder is in what its revisions have. It runs the git command and changes
// nothing but what Fetch brings.
package git

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ErrNoCommand says that there is no git to ask.
var ErrNoCommand = errors.New("there is no git command, which comparing with a base needs")

// A Repo is the repository that a folder is in.
type Repo struct {
	dir    string
	prefix string // of the folder, from the top: "" or "nets/"
	long   bool   // names of objects are SHA-256
}

// Open finds the repository that a folder is in.
func Open(dir string) (*Repo, error) {
	r := &Repo{dir: dir}
	ask := []string{"rev-parse", "--show-prefix"}
	chosen := os.Getenv("GIT_DIR") != "" // by whoever calls us, a hook of a server for one
	if !chosen {
		ask = append(ask, "--absolute-git-dir", "--show-toplevel")
	}
	out, err := r.line(ask...)
	if err != nil {
		return nil, err
	}
	lines := strings.Split(out, "\n")
	if len(lines) != len(ask)-1 {
		return nil, errors.New("git rev-parse: the path of the repository has a line feed in it")
	}
	if !chosen && planted(lines[1], lines[2]) {
		return nil, fmt.Errorf("the repository lies in the work tree as plain files, in %s, want it in a folder named .git",
			lines[1])
	}
	r.prefix = lines[0]
	if format, err := r.line("rev-parse", "--show-object-format"); err == nil { // which git has from 2.25 on
		r.long = format == "sha256"
	}
	return r, nil
}

// planted reports whether what git takes for its own folder are files of the work tree, which somebody may have
// committed together with a configuration that has commands run: nobody can commit a folder named .git. git itself
// refuses this from 2.38 on.
func planted(gitDir, top string) bool {
	within, err := filepath.Rel(filepath.FromSlash(top), filepath.FromSlash(gitDir))
	if err != nil || !filepath.IsLocal(within) {
		return false
	}
	return !slices.Contains(strings.Split(filepath.ToSlash(within), "/"), ".git")
}

// guards keep a repository from choosing what is run: one that lies in the work tree as plain files, and objects that
// stand in for others.
var guards = []string{"-c", "safe.bareRepository=explicit", "-c", "core.fsmonitor=false"}

// command is git with these arguments, in the folder.
func (r *Repo) command(args ...string) *exec.Cmd {
	cmd := exec.Command("git", append(append([]string{}, guards...), args...)...)
	cmd.Dir = r.dir
	cmd.Env = append(os.Environ(), "GIT_NO_REPLACE_OBJECTS=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	return cmd
}

// run returns what a git command says, and its complaint as the error.
func (r *Repo) run(args ...string) ([]byte, error) {
	cmd := r.command(args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	return out, complaint(args[0], err, stderr.String())
}

// complaint makes an error of how a git command ended and what it wrote to stderr.
func complaint(name string, err error, stderr string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, exec.ErrNotFound):
		return ErrNoCommand
	}
	first, _, _ := strings.Cut(strings.TrimSpace(stderr), "\n")
	return fmt.Errorf("git %s: %s", name, strings.TrimPrefix(cmp.Or(first, err.Error()), "fatal: "))
}

// line is run for a command that says one line.
func (r *Repo) line(args ...string) (string, error) {
	out, err := r.run(args...)
	return strings.TrimSuffix(strings.TrimSuffix(string(out), "\n"), "\r"), err
}

// ErrRevision says that a text is no name of one commit.
var ErrRevision = errors.New("is not the name of one commit, such as main, v1.2.0 or HEAD~1")

// CheckRevision refuses with ErrRevision what is no name of one commit: options, and the spellings with which git
// excludes commits or means several.
func CheckRevision(rev string) error {
	several := slices.ContainsFunc([]string{"..", "^@", "^!", "^-"},
		func(s string) bool { return strings.Contains(rev, s) })
	control := strings.ContainsFunc(rev, func(c rune) bool { return c < ' ' || c == 0x7f })
	if several || control || rev == "" || strings.ContainsAny(rev[:1], "-^:") {
		return ErrRevision
	}
	return nil
}

var objectName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`) })

// keptName are the names that git itself gives commits, such as HEAD and FETCH_HEAD, and what follows from them.
var keptName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(@|[A-Z_]*HEAD)([~^@{].*)?$`) })

// candidates are the references that a revision may mean, the first that there is. A branch comes before a tag of the
// same name, which anybody may have made, and a branch of origin before whatever else has it. No branch comes before
// what its name stands for already: HEAD, a commit, origin/main.
func candidates(rev string) []string {
	switch {
	case keptName().MatchString(rev), objectName().MatchString(rev), strings.HasPrefix(rev, "refs/"):
		return []string{rev}
	case strings.HasPrefix(rev, "origin/"):
		return []string{"refs/remotes/" + rev, "refs/heads/" + rev, rev}
	}
	return []string{"refs/heads/" + rev, "refs/remotes/origin/" + rev, rev}
}

// Commit returns the full name of the commit that a revision means.
func (r *Repo) Commit(rev string) (string, error) {
	if err := CheckRevision(rev); err != nil {
		return "", err
	}
	for _, name := range candidates(rev) {
		out, err := r.line("rev-parse", "--verify", "--quiet", "--end-of-options", name+"^{commit}")
		if err == nil && objectName().MatchString(out) {
			return out, nil
		}
		if errors.Is(err, ErrNoCommand) {
			return "", err
		}
	}
	return "", errors.New("git knows no such commit")
}

// Parents returns the names of a commit's parents, which a shallow clone need not have.
func (r *Repo) Parents(commit string) ([]string, error) {
	out, err := r.run("cat-file", "commit", commit)
	if err != nil {
		return nil, err
	}
	var parents []string
	for line := range strings.Lines(string(out)) {
		if line == "\n" {
			break
		}
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "parent "); ok && objectName().MatchString(p) {
			parents = append(parents, p)
		}
	}
	return parents, nil
}

// Has reports whether the clone has a commit with its files.
func (r *Repo) Has(commit string) bool {
	_, err := r.run("cat-file", "-e", commit+"^{tree}")
	return err == nil
}

// IsAncestor reports whether a commit is an ancestor of another, or the same, and whether the clone has the history
// that says so.
func (r *Repo) IsAncestor(commit, of string) (is, known bool) {
	cmd := r.command("merge-base", "--is-ancestor", commit, of)
	err := cmd.Run()
	if err == nil {
		return true, true
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	return false, ok && exit.ExitCode() == 1 && !r.shallow()
}

func (r *Repo) shallow() bool {
	out, err := r.line("rev-parse", "--is-shallow-repository")
	return err == nil && out == "true"
}

// A File is what a commit has under a name.
type File struct {
	ID   string // of its content
	Kind string // one of the kinds below
}

// Kinds of a File.
const (
	Regular   = "file"
	Link      = "symbolic link"
	Submodule = "submodule"
)

// Files returns what a commit has below the folder, by names from the folder. Their content need not be there.
func (r *Repo) Files(commit string) (map[string]File, error) {
	out, err := r.run("ls-tree", "-r", "-z", commit, ".")
	if err != nil {
		return nil, err
	}
	files := map[string]File{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		about, name, ok := strings.Cut(entry, "\t")
		f := strings.Fields(about)
		if !ok || len(f) != 3 {
			continue
		}
		kind := Regular
		switch f[0] {
		case "120000":
			kind = Link
		case "160000":
			kind = Submodule
		}
		files[path.Clean(name)] = File{ID: f[2], Kind: kind}
	}
	return files, nil
}

// Changed returns the names, from the folder, of files that are new or gone since a commit, or may have changed: what
// git would add counts, what it ignores does not.
func (r *Repo) Changed(commit string) ([]string, error) {
	tracked, err := r.run("diff-index", "--name-only", "-z", "--relative", commit, "--", ".")
	if err != nil {
		return nil, err
	}
	others, err := r.run("ls-files", "-z", "--others", "--exclude-standard", "--", ".")
	if err != nil {
		return nil, err
	}
	names := strings.FieldsFunc(string(tracked)+string(others), func(c rune) bool { return c == 0 })
	slices.Sort(names)
	return slices.Compact(names), nil
}

// Skipped returns the names, from the folder, of files that git was told not to look for in the work tree, as a sparse
// checkout does. They may be there all the same.
func (r *Repo) Skipped() (names []string, err error) {
	out, err := r.run("ls-files", "-v", "-z", "--", ".")
	for entry := range strings.SplitSeq(string(out), "\x00") {
		// S is skip-worktree, a small letter assume-unchanged.
		if tag, name, ok := strings.Cut(entry, " "); ok && tag != "" && (tag == "S" || tag != strings.ToUpper(tag)) {
			names = append(names, name)
		}
	}
	return names, err
}

// Find returns the file that a commit has at a path, through symbolic links: from the top of the repository, or from
// the folder where the path begins with "./".
func (r *Repo) Find(commit, file string) (File, error) {
	if strings.ContainsAny(file, "\n") {
		return File{}, errors.New("git cannot be asked for a name with a line feed")
	}
	if rest, ok := strings.CutPrefix(file, "./"); ok {
		file = r.prefix + rest
	}
	cmd := r.command("cat-file", "--batch-check", "--follow-symlinks")
	cmd.Stdin = strings.NewReader(commit + ":" + path.Clean(file) + "\n")
	out, err := cmd.Output()
	f := strings.Fields(string(out))
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return File{}, ErrNoCommand
	case err == nil && len(f) == 3 && f[1] == "blob" && objectName().MatchString(f[0]):
		return File{ID: f[0], Kind: Regular}, nil
	case err == nil && len(f) == 3 && f[1] == "tree":
		return File{}, errors.New("is a folder")
	case err == nil && len(f) > 0 && f[len(f)-1] == "missing":
		return File{}, errors.New("the commit has no such file, or the clone lacks what is in it")
	}
	return File{}, errors.New("is a symbolic link that leads to no file of the commit")
}

// Top returns the folder that the repository's work tree begins at.
func (r *Repo) Top() (string, error) { return r.line("rev-parse", "--show-toplevel") }
