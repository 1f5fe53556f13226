package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/gate/budget"
	"github.com/memestimate/memestimate/models"
	"github.com/spf13/pflag"
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
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
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

// The settings of a budget file are flags, every one of them, and the flags that say what a step does are settings.
func TestSettingsAreFlags(t *testing.T) {
	var m matrix
	fs := pflag.NewFlagSet("", pflag.ContinueOnError)
	m.flags(fs)
	for _, name := range budget.SettingNames() {
		if fs.Lookup(name) == nil {
			t.Errorf("there is no flag --%s", name)
		}
	}
	machine := []string{"memory-limit", "nccl", "bucket-cap"} // of where the step runs
	steps := pflag.NewFlagSet("", pflag.ContinueOnError)
	new(stepFlags).defaults(steps)
	addFlags(steps, append(new(stepFlags).rows(), new(stepFlags).parallelRows()...))
	steps.VisitAll(func(f *pflag.Flag) {
		if slices.Contains(machine, f.Name) == slices.Contains(budget.SettingNames(), f.Name) {
			t.Errorf("a budget file has no setting %s, or has one of where the step runs", f.Name)
		}
	})
	for _, name := range axes {
		if !slices.Contains(budget.SettingNames(), name) {
			t.Errorf("a budget file has no setting %s", name)
		}
	}
}

// hundredModels writes a budget file over a hundred files, of all built-in models.
func hundredModels(t testing.TB) string {
	dir := t.TempDir()
	var forms []string
	for _, name := range models.Names() {
		m, err := models.Info(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range m.Forms {
			forms = append(forms, name+":"+form)
		}
	}
	for i := range 100 {
		data, err := models.Open(forms[i%len(forms)])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.onnx", i)), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(dir, "memestimate.yaml")
	if err := os.WriteFile(config, []byte("settings: {batch: 4}\nlimits: {device: 200GiB}\nmodels: '*.onnx'\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	return config
}

// A hundred models are checked in seconds.
func BenchmarkCheck100(b *testing.B) {
	config := hundredModels(b)
	b.ResetTimer()
	for b.Loop() {
		var out, errs strings.Builder
		e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
		code := run(b.Context(), e, []string{"check", "-c", config})
		if n := strings.Count(out.String(), "ok "); n+strings.Count(out.String(), "error ") != 100 || n < 90 {
			b.Fatalf("code %d, %d lines\n%s", code, n, errs.String())
		}
	}
	if d := b.Elapsed() / time.Duration(b.N); d > 3*time.Second {
		b.Logf("a check of 100 models takes %v, want 3 s at most", d)
	}
}
