package main

import (
	"bufio"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/memestimate/memestimate/test/must"
)

// An action is what a runner reads of action.yml.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Using string
		Steps []struct {
			ID, Name, If, Uses, Shell, Run string
			Directory                      string `yaml:"working-directory"`
			Env                            map[string]string
		}
	}
}

func readAction(t *testing.T) action {
	t.Helper()
	data := must.Read(t, "../../action.yml")
	var a action
	must.OK(t, yaml.Unmarshal(data, &a))
	return a
}

// Actions are pinned by digest, and no script has a text from outside in it.
func TestActionIsPinned(t *testing.T) {
	a := readAction(t)
	if a.Runs.Using != "composite" || len(a.Runs.Steps) < 3 {
		t.Fatalf("%+v", a)
	}
	pinned := regexp.MustCompile(`^[\w.-]+/[\w.-]+@[0-9a-f]{40}$`)
	for _, s := range a.Runs.Steps {
		switch {
		case s.Uses != "" && !pinned.MatchString(s.Uses):
			t.Errorf("%s: %s is not pinned by digest", s.Name, s.Uses)
		case strings.Contains(s.Run, "${{"):
			t.Errorf("%s: an expression in a script", s.Name)
		case s.Run != "" && s.Shell != "bash":
			t.Errorf("%s: shell %q", s.Name, s.Shell)
		}
	}
}

// The hooks for pre-commit run commands that there are: one for the budget file, one for a recording or a script.
func TestPreCommitHooks(t *testing.T) {
	data := must.Read(t, "../../.pre-commit-hooks.yaml")
	var hooks []struct {
		ID, Entry, Language, Files string
		PassFilenames              bool `yaml:"pass_filenames"`
	}
	if err := yaml.Unmarshal(data, &hooks); err != nil || len(hooks) != 2 {
		t.Fatalf("%v, %d hooks", err, len(hooks))
	}
	const recording = "../../recording/testdata/net.b8.mrec"
	for i, want := range []struct {
		files map[string]bool
		args  []string // behind the entry
		code  int
	}{
		{map[string]bool{"models/net.onnx": true, "step.mrec": true, "memestimate.yaml": true, "train.py": false},
			[]string{"--config", "testdata/none.yaml"}, exitInput},
		{map[string]bool{"models/net.onnx": false, "step.mrec": true, "train.py": true},
			[]string{"--gpu", "t4", recording}, exitOK},
		{map[string]bool{}, []string{"--gpu", "100MiB", recording}, exitNo},
	} {
		h := hooks[min(i, 1)]
		if h.PassFilenames || h.Language != "golang" {
			t.Errorf("%+v", h)
		}
		files := regexp.MustCompile(h.Files)
		for name, want := range want.files {
			if files.MatchString(name) != want {
				t.Errorf("%s: %s: %v", h.ID, name, !want)
			}
		}
		words := append(strings.Fields(h.Entry), want.args...)
		out, errs, code := try(t, words[1:]...)
		if words[0] != "memestimate" || code != want.code {
			t.Errorf("%s: %q: exit code %d\n%s%s", h.ID, words, code, out, errs)
		}
	}
}

// What the pages of a release's archive link to is in it, under the same path.
func TestReleaseHasWhatItsPagesLinkTo(t *testing.T) {
	const root = "../../"
	data := must.Read(t, root+".goreleaser.yaml")
	var release struct {
		Archives []struct{ Files []struct{ Src string } }
	}
	if err := yaml.Unmarshal(data, &release); err != nil || len(release.Archives) != 1 {
		t.Fatalf("%v, %d archives", err, len(release.Archives))
	}
	has := map[string]bool{}
	for _, f := range release.Archives[0].Files {
		name, _, _ := strings.Cut(f.Src, "/**")
		if strings.HasPrefix(name, ".release/") { // which scripts/release_texts.sh makes
			continue
		}
		err := filepath.WalkDir(root+name, func(path string, d fs.DirEntry, err error) error {
			has[strings.TrimPrefix(filepath.ToSlash(path), root)] = true
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	links, commands := 0, regexp.MustCompile(`scripts/[a-z_]+\.(?:py|sh)`)
	for name := range has {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		page := must.Read(t, root+name)
		for _, m := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(string(page), -1) {
			to, _, _ := strings.Cut(m[1], "#")
			if to == "" || strings.Contains(to, "://") {
				continue
			}
			links++
			if to = path.Join(path.Dir(name), to); !has[to] {
				t.Errorf("%s links to %s, which the archive has not", name, to)
			}
		}
		if name == "README.md" || name == "docs/graphs.md" { // for users of the program
			for _, script := range commands.FindAllString(string(page), -1) {
				if !has[script] {
					t.Errorf("%s has one run %s, which the archive has not", name, script)
				}
			}
		}
	}
	if links < 20 {
		t.Errorf("only %d links", links)
	}
}

// The Containerfile copies what there is and what is not ignored, from images with whole names.
func TestContainerfile(t *testing.T) {
	data := must.Read(t, "../../Containerfile")
	ignored := map[string]bool{}
	for _, name := range []string{"../../.containerignore", "../../.dockerignore"} {
		f, err := os.Open(name)
		must.OK(t, err)
		lines := bufio.NewScanner(f)
		n := 0
		for lines.Scan() {
			ignored[lines.Text()] = true
			n++
		}
		f.Close()
		if n != len(ignored) {
			t.Error(".containerignore and .dockerignore differ")
		}
	}
	whole := regexp.MustCompile(`^ARG (\w+)=[a-z0-9.-]+\.[a-z]+/[^ ]+:[^ ]+@sha256:[0-9a-f]{64}$`)
	bases := map[string]bool{}
	copied := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		switch {
		case whole.MatchString(strings.TrimSpace(line)):
			bases["${"+whole.FindStringSubmatch(strings.TrimSpace(line))[1]+"}"] = true
		case len(f) > 1 && f[0] == "FROM" && !bases[f[1]]:
			t.Errorf("%s is no image with a whole name and a digest", f[1])
		case len(f) > 2 && f[0] == "COPY":
			for _, path := range f[1 : len(f)-1] {
				path = strings.TrimPrefix(path, "/src/")
				if strings.HasPrefix(path, "--") || path == "/memestimate" { // which the first stage builds
					continue
				}
				if _, err := os.Stat("../../" + path); err != nil || ignored[path] {
					t.Errorf("%s is copied: %v, ignored %v", path, err, ignored[path])
				}
				copied++
			}
		}
	}
	if copied < 5 {
		t.Errorf("%d paths are copied", copied)
	}
}
