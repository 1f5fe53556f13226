package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/memestimate/memestimate/github"
	"github.com/memestimate/memestimate/github/githubtest"
)

// An action is what a runner reads of action.yml.
type action struct {
	Inputs map[string]struct{ Default string }
	Runs   struct {
		Using string
		Steps []struct {
			Name, If, Uses, Shell, Run string
			Env                        map[string]string
		}
	}
}

func readAction(t *testing.T) action {
	t.Helper()
	data, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(data, &a); err != nil {
		t.Fatal(err)
	}
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

// A pullJob is a checked-out pull request in a runner that we play.
type pullJob struct {
	dir, temp, summary, event string
	base                      string
	stub                      *githubtest.Stub
}

// newJob makes a repository whose base has two models, and a pull request that changes one of them. limits
// is what the budget file allows.
func newJob(t *testing.T, limits string) *pullJob {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the steps need bash")
	}
	for _, program := range []string{"bash", "git", "go"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("no ", program)
		}
	}
	nets := editedNetworks(t)
	j := &pullJob{dir: t.TempDir(), temp: t.TempDir(), stub: githubtest.New(t)}
	origin := t.TempDir()
	gitIn(t, origin, "init", "-q", "--bare")
	gitIn(t, j.dir, "init", "-q")
	gitIn(t, j.dir, "remote", "add", "origin", "file://"+origin)
	copyFile(t, filepath.Join(nets, "base.onnx"), filepath.Join(j.dir, "nets", "net.onnx"))
	copyFile(t, filepath.Join(nets, "base.onnx"), filepath.Join(j.dir, "nets", "other.onnx"))
	write(t, filepath.Join(j.dir, "memestimate.yaml"), "settings: {batch: 256}\nlimits: {"+limits+"}\nmodels: nets/*.onnx\n")
	gitIn(t, j.dir, "add", ".")
	gitIn(t, j.dir, "commit", "-qm", "base")
	copyFile(t, filepath.Join(nets, "inserted.onnx"), filepath.Join(j.dir, "nets", "net.onnx"))
	gitIn(t, j.dir, "commit", "-qam", "change")
	gitIn(t, j.dir, "push", "-q", "origin", "HEAD:refs/heads/pull")

	// A shallow clone without the base, as actions/checkout makes it.
	out, err := exec.Command("git", "-C", j.dir, "rev-parse", "HEAD~1").Output()
	if err != nil {
		t.Fatal(err)
	}
	j.base = strings.TrimSpace(string(out))
	gitIn(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	clone := t.TempDir()
	gitIn(t, clone, "clone", "-q", "--depth=1", "--branch=pull", "file://"+origin, ".")
	j.dir = clone

	j.event, j.summary = filepath.Join(j.temp, "event.json"), filepath.Join(j.temp, "summary.md")
	event, _ := json.Marshal(map[string]any{"pull_request": map[string]any{"number": 7, "base": map[string]string{"sha": j.base}}})
	write(t, j.event, string(event))
	return j
}

var expression = regexp.MustCompile(`\$\{\{ *([\w.]+) *\}\}`)

// run plays the steps of action.yml, but for the actions of others, and returns their output and the exit code of
// the step that failed.
func (j *pullJob) run(t *testing.T, api string) (string, int) {
	t.Helper()
	a := readAction(t)
	source, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{"github.token": githubtest.Token, "github.event.pull_request.base.sha": j.base, "github.action_path": source}
	fill := func(text string) string {
		return expression.ReplaceAllStringFunc(text, func(x string) string {
			name := expression.FindStringSubmatch(x)[1]
			v, ok := known[name]
			if !ok {
				t.Fatalf("action.yml asks for %s, which this runner does not know", name)
			}
			return v
		})
	}
	for name, in := range a.Inputs {
		known["inputs."+name] = fill(in.Default)
	}
	env := append(os.Environ(), "GITHUB_ACTIONS=true", "RUNNER_TEMP="+j.temp, "GITHUB_REPOSITORY=owner/repo", "GITHUB_REF=refs/heads/x",
		"GITHUB_EVENT_PATH="+j.event, "GITHUB_STEP_SUMMARY="+j.summary, "GITHUB_API_URL="+api)
	var log strings.Builder
	for _, s := range a.Runs.Steps {
		if s.Run == "" {
			continue
		}
		cmd := exec.Command("bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", s.Run)
		cmd.Dir, cmd.Stdout, cmd.Stderr = j.dir, &log, &log
		cmd.Env = env
		for k, v := range s.Env {
			cmd.Env = append(cmd.Env, k+"="+fill(v))
		}
		if err := cmd.Run(); err != nil {
			return log.String(), cmd.ProcessState.ExitCode()
		}
	}
	return log.String(), 0
}

func (j *pullJob) summaryText(t *testing.T) string {
	t.Helper()
	data, err := os.ReadFile(j.summary)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The steps of the action, as a runner runs them, against a stand-in for the API: the comment is created, then
// updated in place; where it may not be written the summary has it.
func TestActionEndToEnd(t *testing.T) {
	j := newJob(t, "growth: 500%")
	log, code := j.run(t, j.stub.URL)
	if code != 0 || !strings.Contains(log, "memestimate: comment created: https://github.example/") {
		t.Fatalf("code %d\n%s", code, log)
	}
	posted := j.stub.Comments()
	if len(posted) != 1 || !strings.HasPrefix(posted[0].Body, github.Marker("")+"\n### GPU memory\n\nWithin budget.\n") {
		t.Fatalf("%+v", posted)
	}
	for _, want := range []string{"| ok | `nets/net.onnx` | batch 256 |", "### `nets/net.onnx`", "layers: 6 added, 6 renamed, 9 the same", "1 model unchanged and within budget", "`nets/other.onnx`"} {
		if !strings.Contains(posted[0].Body, want) || !strings.Contains(j.summaryText(t), want) {
			t.Errorf("the comment or the summary lacks %q:\n%s", want, posted[0].Body)
		}
	}
	if log, code = j.run(t, j.stub.URL); code != 0 || !strings.Contains(log, "comment unchanged") {
		t.Errorf("again: code %d\n%s", code, log)
	}

	// Over budget: the same comment says so, the line of the budget file is annotated, the job fails.
	write(t, filepath.Join(j.dir, "memestimate.yaml"), "settings: {batch: 256}\nlimits:\n  growth: 1%\nmodels: nets/*.onnx\n")
	log, code = j.run(t, j.stub.URL)
	if code != exitNo || !strings.Contains(log, "comment updated") || !strings.Contains(log, "::error file=memestimate.yaml,line=3,title=memestimate::nets/net.onnx (batch 256)") {
		t.Errorf("over budget: code %d\n%s", code, log)
	}
	if posted = j.stub.Comments(); len(posted) != 1 || !strings.Contains(posted[0].Body, "**1 line over budget.**") {
		t.Errorf("%+v", posted)
	}

	// No way to comment: the summary has it, and the outcome is the same.
	for _, tt := range []struct {
		name, want string
		prepare    func() string
	}{
		{"a fork", "no comment: forbidden: ", func() string { j.stub.Answer(githubtest.Pass, githubtest.Forbidden); return j.stub.URL }},
		{"rate limited", "no comment: rate limited for 1h0m0s", func() string { j.stub.Answer(githubtest.RateLimited(time.Hour)); return j.stub.URL }},
		{"offline", "no comment: no connection: ", func() string { return "http://127.0.0.1:1" }},
	} {
		os.Remove(j.summary)
		body := posted[0].Body
		write(t, filepath.Join(j.dir, "memestimate.yaml"), "settings: {batch: 128}\nlimits: {growth: 2%}\nmodels: nets/*.onnx\n")
		log, code := j.run(t, tt.prepare())
		if code != exitNo || !strings.Contains(log, tt.want) || !strings.Contains(log, "the job summary has it") {
			t.Errorf("%s: code %d\n%s", tt.name, code, log)
		}
		if !strings.Contains(j.summaryText(t), "**1 line over budget.**") {
			t.Errorf("%s: the summary lacks the outcome", tt.name)
		}
		if now := j.stub.Comments(); len(now) != 1 || now[0].Body != body {
			t.Errorf("%s: the comment changed", tt.name)
		}
		if strings.Contains(log, githubtest.Token) {
			t.Errorf("%s: the log tells the token", tt.name)
		}
	}
}

// What --post would post is what is printed without it.
func TestCommentIsPrinted(t *testing.T) {
	j := newJob(t, "device: 100GiB")
	gitIn(t, j.dir, "fetch", "-q", "--depth=1", "origin", j.base)
	stdout, stderr, code := try(t, "comment", "-c", filepath.Join(j.dir, "memestimate.yaml"), "--base", j.base)
	if code != exitOK || stderr != "" || !strings.HasPrefix(stdout, github.Marker("")+"\n### GPU memory\n\nWithin budget.\n") {
		t.Fatalf("code %d, stderr %q\n%s", code, stderr, stdout)
	}
	if _, code := j.run(t, j.stub.URL); code != 0 {
		t.Fatal(code)
	}
	if posted := j.stub.Comments(); len(posted) != 1 || posted[0].Body != stdout {
		t.Errorf("posted\n%s\nprinted\n%s", posted[0].Body, stdout)
	}
}

// The hook for pre-commit runs a command that there is.
func TestPreCommitHook(t *testing.T) {
	data, err := os.ReadFile("../../.pre-commit-hooks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var hooks []struct {
		ID, Entry, Language, Files string
		PassFilenames              bool `yaml:"pass_filenames"`
	}
	if err := yaml.Unmarshal(data, &hooks); err != nil || len(hooks) != 1 {
		t.Fatalf("%v, %d hooks", err, len(hooks))
	}
	h := hooks[0]
	if h.Entry != "memestimate check" || h.PassFilenames || h.Language != "golang" {
		t.Errorf("%+v", h)
	}
	files := regexp.MustCompile(h.Files)
	for name, want := range map[string]bool{"models/net.onnx": true, "memestimate.yaml": true, "train.py": false} {
		if files.MatchString(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
