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

// Ways to have growth measured from something else than the base, none of which leads there.
func TestByTheBase(t *testing.T) {
	holdOff(t, byTheBase)
}

var byTheBase = []attempt{
	{"a base that is no model", func(y *yard) []string {
		y.write("nets/net.onnx", "garbage")
		y.commit()
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitInput, "in the base: "},
	{"a base that git-lfs keeps, which is not here", func(y *yard) []string {
		y.write("nets/net.onnx", "version https://git-lfs.github.com/spec/v1\noid sha256:"+strings.Repeat("4d",
			32)+"\nsize 102400\n")
		y.commit()
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitInput, "git-lfs"},
	{"a base whose content the clone lacks", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.remove(y.object("HEAD:nets/net.onnx"))
		return nil
	}, exitInput, "in the base: "},
	{"a base whose content is corrupt", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		object := y.object("HEAD:nets/net.onnx")
		y.must(os.Chmod(y.path(object), 0o666))
		y.write(object, "x")
		return nil
	}, exitInput, "in the base: "},
	{"a base that these settings do not fit", func(y *yard) []string {
		y.write("nets/net.onnx", string(sided("x", "side", "n", 64)))
		y.commit()
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitInput, "in the base: "},
	{"an object that stands in for the base", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.git("replace", y.revision("HEAD:nets/net.onnx"), strings.TrimSpace(y.ask("hash-object", "-w", "nets/net.onnx")))
		return nil
	}, exitNo, "over +5%"},
	{"a tag that is named as the base branch", func(y *yard) []string {
		y.git("branch", "trunk")
		y.put("nets/net.onnx", "inserted")
		y.commit()
		y.git("tag", "trunk")
		return []string{"--base", "trunk"}
	}, exitNo, "over +5%"},
	{"a base that excludes", func(y *yard) []string { return []string{"--base", "^HEAD"} }, exitUsage,
		"is not the name of one commit"},
	{"a base that is an option", func(y *yard) []string { return []string{"--base=--output=x"} }, exitUsage,
		"is not the name of one commit"},
	{"a base that is a range", func(y *yard) []string { return []string{"--base", "HEAD~1..HEAD"} }, exitUsage,
		"is not the name of one commit"},
	{"a base that is a search", func(y *yard) []string { return []string{"--base", ":/x"} }, exitUsage,
		"is not the name of one commit"},
	{"a base in the file that excludes, where nothing grows", func(y *yard) []string {
		y.write("memestimate.yaml", "base: ^HEAD\nmodels: nets/net.onnx\nsettings: {batch: 2}\n")
		return nil
	}, exitInput, "memestimate.yaml:1: base"},
	{"a base that is what is checked", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.write("memestimate.yaml", "base: HEAD\n"+growthBudget)
		y.commit()
		y.env["CI"] = "true"
		return nil
	}, exitInput, "from which nothing can grow"},
	{"no base in a job of which nothing is known", func(y *yard) []string { y.env["CI"] = "true"; return nil },
		exitInput, "--base says it"},
	{"a base within the pull request", func(y *yard) []string {
		y.write("memestimate.yaml", "base: HEAD~1\n"+growthBudget)
		y.commit()
		y.git("branch", "trunk")
		y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
		y.put("nets/net.onnx", "inserted")
		y.commit()
		y.write("more", "")
		y.commit()
		y.event(`{"pull_request": {"number": 7, "head": {"sha": "` + y.revision("HEAD") + `"}, "base": {"ref": "trunk"}}}`)
		return nil
	}, exitInput, "is a commit of the pull request itself"},
	{"the base checked out in place of the pull request", func(y *yard) []string {
		y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
		y.event(`{"pull_request": {"number": 7, "head": {"sha": "` + strings.Repeat("ab", 20) +
			`"}, "base": {"ref": "trunk"}}}`)
		return nil
	}, exitInput, "is neither the pull request's last commit"},
	{"an event that cannot be read", func(y *yard) []string { y.event("{"); return nil }, exitInput, "GITHUB_EVENT_PATH"},
	{"a submodule in the place of the folder", func(y *yard) []string {
		head := y.revision("HEAD")
		y.git("rm", "-rq", "--cached", "nets")
		y.git("update-index", "--add", "--cacheinfo", "160000,"+head+",nets")
		y.git("commit", "-qm", "submodule")
		y.put("nets/net.onnx", "inserted")
		return nil
	}, exitNo, "nets is a submodule"},
	{"a folder that is a repository of its own making", func(y *yard) []string {
		y.must(os.Rename(y.path(".git"), y.path("x")))
		y.git("init", "-q", "--bare", ".")
		y.write("config", "[core]\n\tbare = true\n\tfsmonitor = touch "+y.path("ran")+"\n")
		return nil
	}, exitInput, "git rev-parse: "},
	{"HEAD, where origin shows a branch with the growth", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.elsewhere("refs/remotes/origin/HEAD")
		return nil
	}, exitNo, "over +5%"},
	{"a branch that is named as one of origin's", func(y *yard) []string {
		y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
		y.put("nets/net.onnx", "inserted")
		y.elsewhere("refs/remotes/origin/origin/trunk")
		return []string{"--base", "origin/trunk"}
	}, exitNo, "over +5%"},
	{"a branch that is named as the base's commit", func(y *yard) []string {
		base := y.revision("HEAD")
		y.put("nets/net.onnx", "inserted")
		y.elsewhere("refs/remotes/origin/" + base)
		return []string{"--base", base}
	}, exitNo, "over +5%"},
	{"a base that the pull request sets to another branch", func(y *yard) []string {
		y.git("branch", "trunk")
		y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
		y.put("nets/net.onnx", "inserted")
		y.elsewhere("refs/remotes/origin/grown")
		y.write("memestimate.yaml", "base: grown\n"+growthBudget)
		y.commit()
		y.event(`{"pull_request": {"number": 7, "head": {"sha": "` + y.revision("HEAD") + `"}, "base": {"ref": "trunk"}}}`)
		return nil
	}, exitNo, "over +5%"},
	{"a merge of the pull request with another branch", func(y *yard) []string {
		y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
		y.put("nets/net.onnx", "inserted")
		y.elsewhere("refs/heads/grown")
		y.commit()
		head := y.revision("HEAD")
		y.git("checkout", "-q", "grown")
		y.git("merge", "-q", "-s", "ours", "-m", "x", head)
		y.event(`{"pull_request": {"number": 7, "head": {"sha": "` + head + `"}, "base": {"ref": "trunk"}}}`)
		return nil
	}, exitInput, "which is no commit of the target trunk"},
	{"a target whose name is an option", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.event(`{"pull_request": {"number": 7, "base": {"ref": "--upload-pack=touch ` + y.path("ran") + `"}}}`)
		return []string{"--fetch"}
	}, exitInput, "what the pull request starts from"},
	{"a target whose name is another reference", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.elsewhere("refs/heads/grown")
		y.event(`{"pull_request": {"number": 7, "base": {"ref": "../../heads/grown"}}}`)
		return nil
	}, exitInput, "what the pull request starts from"},
	{"a base whose name is a command", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		return []string{"--base", "$(touch${IFS}" + y.path("ran") + ")"}
	}, exitInput, "git knows no such commit"},
	{"a service that does not set CI", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.commit()
		y.env["BUILD_NUMBER"] = "7"
		return nil
	}, exitInput, "--base says it"},
	{"a submodule in the place of the folder, since", func(y *yard) []string {
		head := y.revision("HEAD")
		y.git("rm", "-rq", "--cached", "nets")
		y.git("update-index", "--add", "--cacheinfo", "160000,"+head+",nets")
		y.git("commit", "-qm", "submodule")
		y.put("nets/net.onnx", "inserted")
		return []string{"--base", "HEAD~1"}
	}, exitNo, "over +5%"},
	{"a base that was rewritten to have the growth, pushed by force", func(y *yard) []string {
		was := y.revision("HEAD")
		y.put("nets/net.onnx", "inserted")
		y.git("add", "-A")
		y.git("commit", "-q", "--amend", "-m", "x")
		y.event(`{"before": "` + was + `"}`)
		return nil
	}, exitNo, "over +5%"},
}

// In a clone of one commit, as a runner makes it, growth is measured from where a pull request starts, whatever base it
// names itself: its own commit, its branch, or the branch that it is to be merged into.
func TestOwnBase(t *testing.T) {
	j := newJob(t, growthBudget)
	for _, tt := range []struct {
		base string
		code int
		says string
	}{
		{j.head, exitNo, "1 of 2 models over budget"},
		{"topic", exitNo, "1 of 2 models over budget"},
		{"main", exitNo, "1 of 2 models over budget"},
	} {
		write(t, filepath.Join(j.dir, "memestimate.yaml"), "base: "+tt.base+"\n"+growthBudget)
		log, code := j.comment()
		posted := j.stub.Comments()
		if code != tt.code || len(posted) != 1 || !strings.Contains(posted[0].Body, tt.says) {
			t.Errorf("base: %s: code %d, want %d and %q\n%s\n%+v", tt.base, code, tt.code, tt.says, log, posted)
		}
	}
}
