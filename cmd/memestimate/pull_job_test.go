package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/test/forgetest"
	"github.com/memestimate/memestimate/test/must"
)

// A pullJob is a pull request as a runner of GitHub checks it out: one commit, the merge of its branch into a main
// that went on since.
type pullJob struct {
	*testing.T
	dir, temp, summary, output string
	env                        map[string]string
	stub                       *forgetest.Stub
	base, head                 string // the commits that the merge is of
}

// newJob makes the pull request: main has two models and this budget file, the branch changes one model, and since
// then main got a third one that takes a lot.
func newJob(t *testing.T, budget string) *pullJob {
	t.Helper()
	if runtime.GOOS == "windows" {
		lacking(t, "the steps need bash")
	}
	nets := editedNetworks(t)
	j := &pullJob{T: t, dir: t.TempDir(), temp: t.TempDir(), stub: forgetest.New(t)}
	origin := t.TempDir()
	put := func(net, name string) {
		copyFile(t, filepath.Join(nets, net+".onnx"), filepath.Join(origin, "nets", name))
	}
	commit := func() string {
		gitIn(t, origin, "add", "-A")
		gitIn(t, origin, "commit", "-qm", "x")
		return revision(t, origin, "HEAD")
	}
	gitIn(t, origin, "init", "-q")
	gitIn(t, origin, "config", "uploadpack.allowAnySHA1InWant", "true")
	put("base", "net.onnx")
	put("base", "other.onnx")
	write(t, filepath.Join(origin, "memestimate.yaml"), budget)
	opened := commit()
	gitIn(t, origin, "checkout", "-qb", "topic")
	put("inserted", "net.onnx")
	j.head = commit()
	gitIn(t, origin, "checkout", "-q", "main")
	put("inserted", "other.onnx") // what others merged must not be taken for a change of this pull request
	j.base = commit()
	gitIn(t, origin, "checkout", "-q", "--detach")
	gitIn(t, origin, "merge", "-q", "--no-ff", "-m", "m", "topic")
	merge := revision(t, origin, "HEAD")
	gitIn(t, origin, "update-ref", "refs/pull/7/merge", merge)
	gitIn(t, origin, "checkout", "-q", "main")

	gitIn(t, j.dir, "init", "-q")
	gitIn(t, j.dir, "remote", "add", "origin", "file://"+origin)
	gitIn(t, j.dir, "fetch", "-q", "--depth=1", "origin", "+"+merge+":refs/remotes/pull/7/merge")
	gitIn(t, j.dir, "checkout", "-q", "--detach", "refs/remotes/pull/7/merge")

	event := filepath.Join(j.temp, "event.json")
	j.summary, j.output = filepath.Join(j.temp, "summary.md"), filepath.Join(j.temp, "output")
	data, err := json.Marshal(map[string]any{"repository": map[string]string{"default_branch": "main"},
		"pull_request": map[string]any{
			"number": 7, "head": map[string]string{"sha": j.head}, "base": map[string]string{"ref": "main", "sha": opened}}})
	must.OK(t, err)
	write(t, event, string(data))
	j.env = map[string]string{
		"GITHUB_ACTIONS": "true", "CI": "true", "GITHUB_REPOSITORY": "owner/repo", "GITHUB_REF": "refs/pull/7/merge",
		"GITHUB_SHA": merge, "GITHUB_BASE_REF": "main",
		"GITHUB_EVENT_PATH": event, "GITHUB_STEP_SUMMARY": j.summary, "GITHUB_OUTPUT": j.output, "GITHUB_API_URL": j.stub.URL,
		"GITHUB_GRAPHQL_URL": j.stub.URL + "/graphql",
		"GITHUB_TOKEN":       forgetest.Token, "GITHUB_SERVER_URL": "https://github.example", "GITHUB_RUN_ID": "12",
	}
	return j
}

func revision(t *testing.T, dir, rev string) string {
	t.Helper()
	cmd := exec.Command("git", "rev-parse", rev)
	cmd.Dir = dir
	out, err := cmd.Output()
	must.OK(t, err)
	return strings.TrimSpace(string(out))
}

// comment runs the command as the action does, and returns what it told and its exit code.
func (j *pullJob) comment(args ...string) (log string, code int) {
	j.Helper()
	var out, errs bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv: func(name string) string { return j.env[name] }, now: func() time.Time { return time.Unix(1e9, 0) }}
	config := filepath.Join(j.dir, "memestimate.yaml")
	code = run(j.Context(), e, append([]string{"comment", "--post", "--annotate", "--fetch", "--wait", "0s", "-c",
		config}, args...))
	return strings.ReplaceAll(out.String()+errs.String(), config, "memestimate.yaml"), code
}

func (j *pullJob) read(path string) string {
	j.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		j.Fatal(err)
	}
	return string(data)
}
