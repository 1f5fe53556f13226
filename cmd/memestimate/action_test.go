package main

import (
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
