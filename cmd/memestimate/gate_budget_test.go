package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// badBudget changes the budget file along with the model.
func badBudget(text string) func(*yard) []string {
	return func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.write("memestimate.yaml", text)
		return nil
	}
}

// Ways to get growth past the check by the budget file, none of which leads there.
func TestByTheBudget(t *testing.T) {
	holdOff(t, byTheBudget)
}

var byTheBudget = []attempt{
	{"no models", func(y *yard) []string { y.remove("nets/net.onnx"); return nil }, exitInput, "no such file"},
	{"an empty list of models", func(y *yard) []string { y.write("memestimate.yaml", "models: []\n"); return nil },
		exitInput, "models is an empty list"},
	{"everything excluded", func(y *yard) []string {
		y.write("memestimate.yaml",
			"settings: {batch: 256}\nmodels:\n  - path: nets/*.onnx\n    limits: {growth: 5%}\n    exclude: '**'\n")
		return nil
	}, exitInput, "leave no model of this entry"},
	{"a limit without a unit", func(y *yard) []string {
		y.write("memestimate.yaml", "settings: {batch: 256}\nlimits: {device: 24}\nmodels: nets/*.onnx\n")
		return nil
	}, exitInput, "24 has no unit"},
	{"a limit of another mapping, merged in", func(y *yard) []string {
		y.write("memestimate.yaml", "x: &x {growth: 500%}\nlimits: {<<: *x}\nmodels: nets/*.onnx\n")
		return nil
	}, exitInput, "memestimate.yaml:1: the file has no key"},
	{"a limit given twice", func(y *yard) []string {
		y.write("memestimate.yaml", "limits: {growth: 1%}\nlimits: {growth: 500%}\nmodels: nets/*.onnx\n")
		return nil
	}, exitInput, "twice"},
	{"a budget file in another folder", func(y *yard) []string {
		y.must(os.Mkdir(y.path("ci"), 0o777))
		y.git("mv", "memestimate.yaml", "ci/memestimate.yaml")
		return nil
	}, exitInput, "no such file"},
	{"a budget file with a capital letter", func(y *yard) []string {
		y.git("mv", "memestimate.yaml", "Memestimate.yaml")
		return nil
	}, exitInput, "no such file"},
	{"a budget file that is a link out of the repository", func(y *yard) []string {
		secret := filepath.Join(y.TempDir(), "netrc")
		write(y.T, secret, "machine github.com login x password hunter2\n")
		y.remove("memestimate.yaml")
		y.link(secret, "memestimate.yaml")
		return nil
	}, exitInput, "leads out of the repository"},
	{"a budget file with tabs", badBudget("limits:\n\tgrowth: 5%\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:2: "},
	{"limits by an anchor and an alias", badBudget("x: &x {growth: 500%}\nlimits: *x\nmodels: nets/*.onnx\n"),
		exitInput,
		"memestimate.yaml:1: the file has no key"},
	{"an entry by an alias", badBudget("models: [&a {path: nets/net.onnx}, *a]\n"), exitInput, "an alias"},
	{"growth that is no number", badBudget("limits: {growth: .nan}\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:1: growth"},
	{"growth that is NaN percent", badBudget("limits: {growth: NaN%}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: growth"},
	{"growth without an end", badBudget("limits: {growth: .inf}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: growth"},
	{"negative growth", badBudget("limits: {growth: -5%}\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:1: growth"},
	{"growth beyond all numbers", badBudget("limits: {growth: 1e400%}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: growth"},
	{"a limit beyond all numbers", badBudget("limits: {device: 99999999999TiB}\nmodels: nets/*.onnx\n"), exitInput,
		"memestimate.yaml:1: device"},
	{"a negative limit", badBudget("limits: {device: -1GiB}\nmodels: nets/*.onnx\n"),
		exitInput, "memestimate.yaml:1: device"},
	{"a batch of nothing", badBudget("settings: {batch: 0}\nlimits: {growth: 5%}\nmodels: nets/*.onnx\n"),
		exitInput,
		"memestimate.yaml:1: batch"},
	{"a key that looks the same", badBudget("lim\u0456ts: {growth: 5%}\nmodels: nets/*.onnx\n"),
		exitInput, "has no key"},
	{"a key in other letters", badBudget("limits: {growth: 5%}\nLimits: {growth: 500%}\nmodels: nets/*.onnx\n"),
		exitInput, "twice"},
	{"a second document", badBudget(growthBudget + "---\nlimits: {growth: 500%}\nmodels: nets/*.onnx\n"), exitInput,
		"a second document"},
	{"a line that people do not see", badBudget("# as agreed\u2028limits: {growth: 500%}\nmodels: nets/*.onnx\n"),
		exitInput,
		"memestimate.yaml:1: U+2028"},
	{"text that runs the other way", badBudget("models: nets/*.onnx # \u202e\nlimits: {growth: 5%}\n"), exitInput,
		"memestimate.yaml:1: U+202E"},
	{"two bytes a letter, which no review shows", badBudget("\xff\xfem\x00:\x00 \x00x\x00"), exitInput, "UTF-8"},
	{"two entries of one model", badBudget("settings: {batch: 256}\nmodels:\n" +
		"  - {path: nets/net.onnx, limits: {growth: 5%}}\n" +
		"  - {path: nets/*.onnx, limits: {device: 64GiB}}\n"), exitNo, "over +5%"},
	{"an entry that excludes itself", badBudget("settings: {batch: 256}\nlimits: {growth: 500%}\nmodels:\n" +
		"  - {path: nets/net.onnx, exclude: nets/net.onnx}\n  - nets/net.onnx\n"),
		exitInput, "leave no model of this entry"},
	{"a file that is named as a built-in model", func(y *yard) []string {
		y.put("resnet18", "inserted")
		y.write("memestimate.yaml", "settings: {batch: 2}\nmodels: [nets/net.onnx, resnet18]\n")
		return nil
	}, exitInput, "is a built-in model and a file as well"},
	{"a path that leaves the repository", badBudget("settings: {batch: 2}\nmodels: ../nets/*.onnx\n"), exitInput,
		"leaves the folder"},
}

// Ways to have a model that grew looked at by nobody, none of which leads there.
func TestHiddenGrowth(t *testing.T) {
	holdOff(t, hiddenGrowth)
}

// twoNets gives the yard a second model, in a folder of its own, and paths for all.
func (y *yard) twoNets(budget string) {
	y.write("memestimate.yaml", budget)
	y.put("nets/sub/a.onnx", "base")
	y.commit()
}

// recursive is growthBudget for folders as well.
var recursive = strings.Replace(growthBudget, "nets/*.onnx", "nets/**/*.onnx", 1)

var hiddenGrowth = []attempt{
	{"a heavy branch of an If", func(y *yard) []string {
		heavy, err := os.ReadFile("testdata/gate/if-heavy-branch.onnx")
		y.must(err)
		y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "batch: 8", 1))
		y.commit()
		y.write("nets/net.onnx", string(heavy))
		return nil
	}, exitNo, "1.78&nbsp;GiB"},
	{"the folder replaced by a link to a grown copy", func(y *yard) []string {
		y.twoNets(recursive)
		y.must(os.Mkdir(y.path("hidden"), 0o777))
		y.must(os.Rename(y.path("nets/sub"), y.path("hidden/sub")))
		y.link("../hidden/sub", "nets/sub")
		y.put("hidden/sub/a.onnx", "inserted")
		y.commit()
		return []string{"--base", "HEAD~1"}
	}, exitInput, "is behind a symbolic link now"},
	{"moved behind 501 new files", func(y *yard) []string {
		y.twoNets(recursive)
		for i := range 501 {
			y.write(fmt.Sprintf("a/%04d.txt", i), "x")
		}
		y.remove("nets/sub/a.onnx")
		y.put("z/a.bin", "base")
		y.commit()
		return []string{"--base", "HEAD~1"}
	}, exitInput, "moved to z/a.bin"},
	{"moved as a pointer of git-lfs", func(y *yard) []string {
		y.twoNets(recursive)
		y.remove("nets/sub/a.onnx")
		y.write("nets/sub/a.onnx.lfs", lfsPointer)
		return nil
	}, exitInput, "may have moved to nets/sub/a.onnx.lfs, a pointer of git-lfs"},
	{"the folder as a submodule that is not here", func(y *yard) []string {
		y.twoNets(recursive)
		head := y.revision("HEAD")
		y.git("rm", "-rq", "nets/sub")
		y.git("update-index", "--add", "--cacheinfo", "160000,"+head+",nets/sub")
		y.git("commit", "-qm", "submodule")
		y.must(os.Mkdir(y.path("nets/sub"), 0o777))
		return []string{"--base", "HEAD~1"}
	}, exitInput, "may have moved to nets/sub, a submodule"},
	{"a sparse checkout", func(y *yard) []string {
		y.twoNets(recursive)
		y.put("nets/sub/a.onnx", "inserted")
		y.commit()
		y.git("sparse-checkout", "set", "--no-cone", "/memestimate.yaml", "/nets/net.onnx")
		return []string{"--base", "HEAD~1"}
	}, exitInput, "nets/sub/a.onnx is not checked out here"},
	{"a file that git does not look for", func(y *yard) []string {
		y.twoNets(recursive)
		y.put("nets/sub/a.onnx", "inserted")
		y.commit()
		y.git("update-index", "--skip-worktree", "nets/sub/a.onnx")
		y.remove("nets/sub/a.onnx")
		return []string{"--base", "HEAD~1"}
	}, exitInput, "nets/sub/a.onnx is not checked out here"},
	{"moved to a name that is not checked out", func(y *yard) []string {
		y.twoNets(recursive)
		y.git("mv", "nets/sub/a.onnx", "b.bin")
		y.git("commit", "-qm", "moved")
		y.git("update-index", "--skip-worktree", "b.bin")
		y.remove("b.bin")
		return []string{"--base", "HEAD~1"}
	}, exitInput, "may have moved to b.bin, which is not checked out"},
	{"a new name under a standing new", func(y *yard) []string {
		y.twoNets("settings: {batch: 256}\nlimits: {growth: 5%}\nmodels: {path: 'nets/**/*.onnx', new: 'nets/**'}\n")
		y.remove("nets/sub/a.onnx")
		y.put("nets/sub/b.onnx", "inserted")
		return nil
	}, exitNo, "`nets/sub/b.onnx` was `nets/sub/a.onnx`"},
	{"a recording that moves to where no path leads", func(y *yard) []string {
		small, err := os.ReadFile("../../recording/testdata/net.b8.mrec")
		y.must(err)
		large, err := os.ReadFile("../../recording/testdata/net.b100.mrec")
		y.must(err)
		y.write("nets/a.mrec", string(small))
		y.write("nets/b.mrec", string(small))
		y.write("memestimate.yaml", "limits: {growth: 5%}\nmodels: nets/*.mrec\n")
		y.commit()
		y.remove("nets/a.mrec")
		y.write("other/a.mrec", string(large))
		return nil
	}, exitInput, "moved to other/a.mrec"},
	{"a base that this change sets to an older commit, which was larger", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.commit()
		old := y.revision("HEAD")
		y.put("nets/net.onnx", "base")
		y.commit()
		y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
		y.git("checkout", "-qb", "topic")
		y.put("nets/net.onnx", "inserted")
		y.write("memestimate.yaml", "base: "+old+"\n"+growthBudget)
		y.commit()
		y.event(`{"pull_request": {"number": 7, "head": {"sha": "` + y.revision("HEAD") + `"}, "base": {"ref": "trunk"}}}`)
		return nil
	}, exitNo, "over +5%"},
	{"a base that this change sets, where the service says nothing of the change", func(y *yard) []string {
		y.put("nets/net.onnx", "inserted")
		y.commit()
		old := y.revision("HEAD")
		y.write("memestimate.yaml", "base: "+old+"\n"+growthBudget)
		y.commit()
		y.env["CI"] = "true"
		return nil
	}, exitInput, "its own budget file does not say so"},
}

// What a change does to its own limits stands first and in the open, the most first, whatever else it changes.
func TestLoosenedLimitsStandFirst(t *testing.T) {
	y := newYard(t)
	var before, after strings.Builder
	for i := range 20 {
		y.put(fmt.Sprintf("nets/%02d.onnx", i), "base")
		fmt.Fprintf(&before, "  - {path: nets/%02d.onnx, limits: {growth: 5%%, device: %dGiB}}\n", i, 10+i)
		growth := 5
		if i == 13 {
			growth = 500
		}
		fmt.Fprintf(&after, "  - {path: nets/%02d.onnx, limits: {growth: %d%%, device: %dGiB}}\n", i, growth, 9+i)
	}
	const head = "settings: {batch: 2}\nmodels:\n"
	y.write("memestimate.yaml", head+before.String())
	y.commit()
	y.put("nets/13.onnx", "inserted")
	y.write("memestimate.yaml", head+after.String())
	output, code := y.check()
	if code != exitOK || !strings.HasPrefix(output, "### GPU memory: within budget, and this change loosens limits") {
		t.Errorf("code %d\n%s", code, output)
	}
	const first = "\n\n**This change loosens its own limits:**\n\n- `growth` goes from `5%` to `500%` for `nets/13.onnx`\n\n"
	if at := strings.Index(output, first); at < 0 || strings.Contains(output[:at], "\n") {
		t.Errorf("it does not stand first:\n%s", output)
	}
	if !strings.Contains(output, "memestimate: this change loosens its own limits: `growth` goes from `5%` to `500%` for ") {
		t.Errorf("stderr does not say it:\n%s", output)
	}
}
