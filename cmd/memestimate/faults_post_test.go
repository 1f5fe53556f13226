//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/gate/forge"
	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/forgetest"
	"github.com/memestimate/memestimate/test/must"
)

// postingFaults are what may happen to the calls by which a comment is sent and a job's files are written.
func postingFaults() (all []fault) {
	kinds := []string{"error=EIO", "error=ECONNRESET", "error=ENOSPC", "error=EINTR", "signal=SIGTERM", "signal=SIGINT",
		"signal=SIGKILL"}
	for _, c := range []struct {
		name string
		most int
	}{{"connect", 2}, {"socket", 2}, {"write", 5}, {"read", 7}, {"openat", 9}, {"fstat", 4}, {"close", 5},
		{"getpeername", 1}, {"setsockopt", 2}, {"epoll_ctl", 4}} {
		for n := range c.most {
			for _, k := range kinds {
				if c.name == "close" && strings.HasPrefix(k, "error=") { // strace would leave open what Linux closes all the same
					continue
				}
				all = append(all, fault{c.name, n + 1, k})
			}
		}
	}
	return all
}

// A posting is a job that posts a comment, with what there was before.
type posting struct {
	*testing.T
	program, dir string
	stub         *forgetest.Stub
	old          string // the comment that is there; "" for none
}

// summaryBefore is what an earlier step left in the summary.
const summaryBefore = "## an earlier step\n"

// checkOut makes the repository that the job is about.
func (p *posting) checkOut() {
	p.Helper()
	honest, err := models.Open("conv_example")
	must.OK(p, err)
	write(p.T, filepath.Join(p.dir, "conv.onnx"), string(honest))
	write(p.T, filepath.Join(p.dir, "memestimate.yaml"), "models: [conv.onnx]\nlimits: {parameters: 1GiB}\n")
	gitIn(p.T, p.dir, "init", "-q")
	gitIn(p.T, p.dir, "add", "-A")
	gitIn(p.T, p.dir, "commit", "-qm", "x")
}

// begin sets the job's files and the pull request back.
func (p *posting) begin() {
	p.Helper()
	must.OK(p, os.RemoveAll(filepath.Join(p.dir, "outputs")))
	write(p.T, filepath.Join(p.dir, "summary.md"), summaryBefore)
	p.stub = forgetest.New(p.T)
	p.stub.Login = "app[bot]"
	p.stub.Add(forgetest.Comment{Body: "chat", Login: "a"})
	if p.old != "" {
		p.stub.Add(forgetest.Comment{Body: p.old, Login: p.stub.Login})
	}
}

// post runs the command, by another one where there is one, and returns what it said.
func (p *posting) post(by ...string) (said string, ok bool) {
	args := append(by, p.program, "comment", "--post", "--base", "HEAD", "--wait", "0s", "-c",
		filepath.Join(p.dir, "memestimate.yaml"))
	ctx, cancel := context.WithTimeout(p.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "TMPDIR="+p.dir, "GITHUB_ACTIONS=true", "GITHUB_REPOSITORY=owner/repo",
		"GITHUB_REF=refs/pull/7/merge", "GITHUB_API_URL="+p.stub.URL, "GITHUB_GRAPHQL_URL="+p.stub.URL+"/graphql",
		"GITHUB_TOKEN="+forgetest.Token, "GITHUB_STEP_SUMMARY="+filepath.Join(p.dir, "summary.md"),
		"GITHUB_OUTPUT="+filepath.Join(p.dir, "outputs"), "GITHUB_EVENT_PATH=", "GITHUB_BASE_REF=", "GITHUB_RUN_ID=")
	cmd.WaitDelay = 10 * time.Second // what strace traced may outlive it, and holds the output
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		p.Errorf("%q does not end: %s", args, out)
	}
	return string(out), err == nil
}

// ours are the comments that the job wrote, without their dates.
func (p *posting) ours() (list []string) {
	for _, c := range p.stub.Comments() {
		if c.Login == p.stub.Login {
			list = append(list, undated(c.Body))
		}
	}
	return list
}

var commentDate = regexp.MustCompile(`\d+ [A-Z][a-z]+ \d{4} \d\d:\d\d UTC`)

func undated(s string) string { return commentDate.ReplaceAllString(s, "DATE") }

func (p *posting) file(name string) string {
	data, err := os.ReadFile(filepath.Join(p.dir, name))
	if err != nil && !os.IsNotExist(err) {
		p.Error(err)
	}
	return undated(string(data))
}

// Whatever happens while a comment is posted, there is one at most, with the old text or the new one; the job's summary
// keeps what it had, and has all of the outcome or nothing of it; no other file is left; that neither place has the
// outcome is an error; and the next job leaves one comment with the new text. MEMESTIMATE_MUTATIONS says how many
// faults; without it there are a few.
func TestPostingUnderFaults(t *testing.T) {
	p := &posting{T: t, program: programForFaults(t), dir: filepath.Join(t.TempDir(), "job")}
	p.checkOut()
	p.begin()
	if said, ok := p.post(); !ok || len(p.ours()) != 1 || !strings.Contains(said, "comment created") ||
		!strings.Contains(p.ours()[0], "within budget") {
		t.Fatalf("without a fault: %s, %q", said, p.ours())
	}
	want, summary, outputs := p.ours()[0], p.file("summary.md"), p.file("outputs")
	most, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS"))
	if err != nil {
		most = 10
	}
	all := postingFaults()
	injected, told := 0, 0
	for k := 0; k < 4*most && injected < most; k++ {
		p.old = ""
		if k%3 > 0 {
			p.old = forge.Marker("") + "\nold"
		}
		p.begin()
		f := all[k*11%len(all)]
		log := p.dir + ".strace"
		inject := fmt.Sprintf("%s:%s:when=%d", f.call, f.what, f.nth)
		said, ok := p.post("strace", "-f", "-qq", "-o", log, "-e", "trace="+f.call, "-e", "inject="+inject)
		traced := must.Read(t, log)
		if !cameAbout(string(traced), f) {
			continue
		}
		injected++
		if !ok {
			told++
		}
		p.check(inject, said, ok, f.what == "signal=SIGKILL", want, summary, outputs)
	}
	t.Logf("%d faults, of which %d were told as errors", injected, told)
	if injected < most || told == 0 || told == injected {
		t.Errorf("%d faults of %d came about, %d were told", injected, most, told)
	}
}

// cameAbout reports whether strace says that the fault came about.
func cameAbout(traced string, f fault) bool {
	return strings.Contains(traced, "(INJECTED)") || strings.Contains(traced, "--- "+strings.TrimPrefix(f.what,
		"signal=")) || strings.Contains(traced, "killed by")
}

// check looks at what a job left, and runs the next one.
func (p *posting) check(what, said string, ok, killed bool, want, summary, outputs string) {
	p.Helper()
	got, sum := p.ours(), p.file("summary.md")
	text := strings.Join(got, "") + sum
	failed := strings.Contains(text, "not checked") || strings.Contains(text, "cannot be read") // it came while we read
	switch {
	case len(got) > 1 || p.old != "" && len(got) == 0:
		p.Errorf("under %s: %d comments: %q", what, len(got), got)
	case len(got) == 1 && got[0] != p.old && got[0] != want && !failed:
		p.Errorf("under %s: neither the old text nor the new one: %q", what, got)
	case sum != summaryBefore && sum != summary && !failed:
		p.Errorf("under %s: neither all of the summary nor nothing of it: %q", what, sum)
	case p.file("outputs") != "" && p.file("outputs") != outputs && !strings.Contains(p.file("outputs"), "comment=\n") &&
		!failed:
		p.Errorf("under %s: outputs of the step: %q", what, p.file("outputs"))
	case ok && sum == summaryBefore && (len(got) == 0 || got[0] == p.old):
		p.Errorf("under %s: the outcome is nowhere, and that is no error: %s", what, said)
	case strings.Contains(said, forgetest.Token):
		p.Errorf("under %s: the log tells the token: %s", what, said)
	}
	entries, err := os.ReadDir(p.dir)
	must.OK(p, err)
	for _, e := range entries {
		switch e.Name() {
		case ".git", "conv.onnx", "memestimate.yaml", "summary.md", "outputs":
		default:
			if !killed {
				p.Errorf("under %s: leaves %s: %s", what, e.Name(), said)
			}
		}
	}
	if said, ok := p.post(); !ok || len(p.ours()) != 1 || p.ours()[0] != want {
		p.Errorf("the job after %s: %s, %q", what, said, p.ours())
	}
}
