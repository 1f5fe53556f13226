package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// gitIn runs git in a folder as nobody in particular.
func gitIn(t *testing.T, dir string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c",
		"init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must.OK(t, os.MkdirAll(filepath.Dir(path), 0o777))
	must.Write(t, path, []byte(text))
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data := must.Read(t, from)
	write(t, to, string(data))
}

// Growth is measured from a revision: what did not change stays, what is new may have any size, and what grew
// is told with the line of the limit.
func TestCheckGrowth(t *testing.T) {
	nets := editedNetworks(t)
	dir := t.TempDir()
	copyFile(t, filepath.Join(nets, "base.onnx"), filepath.Join(dir, "nets", "a.onnx"))
	copyFile(t, filepath.Join(nets, "base.onnx"), filepath.Join(dir, "nets", "b.onnx"))
	config := filepath.Join(dir, "memestimate.yaml")
	write(t, config, "settings: {batch: 256}\nmodels:\n  - path: nets/*.onnx\n    limits:\n      growth: 5%\n   "+
		" new: nets/c.onnx\n")
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "base")

	if stdout, stderr, code := try(t, "check", "-c", config); code != exitOK || strings.Count(stdout, "ok ") != 2 {
		t.Errorf("nothing changed: code %d\n%s%s", code, stdout, stderr)
	}
	copyFile(t, filepath.Join(nets, "inserted.onnx"), filepath.Join(dir, "nets", "b.onnx"))
	copyFile(t, filepath.Join(nets, "widened.onnx"), filepath.Join(dir, "nets", "c.onnx"))
	stdout, stderr, code := try(t, "check", "-c", config)
	if code != exitNo || strings.Count(stdout, "over ") != 1 ||
		!strings.Contains(stderr, "memestimate.yaml:5: nets/b.onnx (batch 256): device memory ") ||
		!strings.Contains(stderr, "over +5%") {
		t.Errorf("code %d\n%s%s", code, stdout, stderr)
	}
	if !strings.Contains(stdout, "new: nothing to grow from, as the entry says") {
		t.Errorf("the new model is not said to be new:\n%s", stdout)
	}
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "-qm", "grow")
	if stdout, stderr, code := try(t, "check", "-c", config); code != exitOK {
		t.Errorf("once it is committed: code %d\n%s%s", code, stdout, stderr)
	}
	if _, _, code := try(t, "check", "-c", config, "--base", "HEAD~1"); code != exitNo {
		t.Errorf("from the revision before: code %d", code)
	}
	for _, rev := range []string{"nosuch", "--exec=x", "HEAD:nets"} {
		if _, stderr, code := try(t, "check", "-c", config, "--base="+rev); code != exitInput && code != exitUsage ||
			strings.Contains(stderr, "internal error") {
			t.Errorf("base %s: code %d, %s", rev, code, stderr)
		}
	}
	write(t, config, "settings: {batch: 256}\nmodels:\n  - path: nets/b.onnx\n    limits: {growth: 1GiB}\n")
	if _, stderr, code := try(t, "check", "-c", config, "--base", "HEAD~1"); code != exitOK {
		t.Errorf("within a GiB: code %d, %s", code, stderr)
	}
	outside := t.TempDir()
	write(t, filepath.Join(outside, "memestimate.yaml"), "models: conv_example\nlimits: {growth: 0%}")
	t.Setenv("GIT_CEILING_DIRECTORIES", filepath.Dir(outside))
	if _, stderr, code := try(t, "check", "-c", filepath.Join(outside, "memestimate.yaml")); code != exitInput ||
		!strings.Contains(stderr, "git rev-parse: ") {
		t.Errorf("outside of a repository: code %d, %s", code, stderr)
	}
}
