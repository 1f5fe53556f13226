package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A yard is a repository with one model under a growth limit, in which a test tries to get growth past the check.
type yard struct {
	*testing.T
	dir  string
	env  map[string]string
	nets map[string][]byte
}

const growthBudget = "settings: {batch: 256}\nlimits: {growth: 5%}\nmodels: nets/*.onnx\n"

// newYard makes the repository, with a commit that has base.onnx as nets/net.onnx.
func newYard(t *testing.T) *yard {
	y := &yard{T: t, dir: t.TempDir(), env: map[string]string{}, nets: map[string][]byte{}}
	from := editedNetworks(t)
	for _, name := range []string{"base", "inserted", "widened"} {
		data, err := os.ReadFile(filepath.Join(from, name+".onnx"))
		if err != nil {
			t.Fatal(err)
		}
		y.nets[name] = data
	}
	y.git("init", "-q")
	y.write("memestimate.yaml", growthBudget)
	y.put("nets/net.onnx", "base")
	y.commit()
	return y
}

func (y *yard) path(name string) string { return filepath.Join(y.dir, filepath.FromSlash(name)) }
func (y *yard) git(args ...string)      { y.Helper(); gitIn(y.T, y.dir, args...) }
func (y *yard) write(name, text string) { y.Helper(); write(y.T, y.path(name), text) }
func (y *yard) put(name, net string)    { y.Helper(); y.write(name, string(y.nets[net])) }
func (y *yard) commit() {
	y.Helper()
	y.git("add", "-A")
	y.git("commit", "-qm", "x",
		"--allow-empty")
}
func (y *yard) link(to, name string)       { y.Helper(); y.must(os.Symlink(to, y.path(name))) }
func (y *yard) remove(name string)         { y.Helper(); y.must(os.RemoveAll(y.path(name))) }
func (y *yard) revision(rev string) string { return strings.TrimSpace(y.ask("rev-parse", rev)) }
func (y *yard) object(rev string) (path string) {
	id := y.revision(rev)
	return ".git/objects/" + id[:2] + "/" + id[2:]
}

func (y *yard) must(err error) {
	y.Helper()
	if err != nil {
		y.Fatal(err)
	}
}

func (y *yard) ask(args ...string) string {
	y.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = y.dir
	out, err := cmd.Output()
	y.must(err)
	return string(out)
}

// check runs the check in the surroundings of the yard.
func (y *yard) check(args ...string) (output string, code int) {
	var out, errs bytes.Buffer
	e := &env{stdin: strings.NewReader(""), stdout: &out, stderr: &errs,
		getenv: func(name string) string { return y.env[name] }}
	code = run(y.Context(), e, append([]string{"check", "-c", y.path("memestimate.yaml"), "--format", "markdown"},
		args...))
	return out.String() + errs.String(), code
}

// sided is a network on pictures whose sides are a symbol, with an input of this name; of width so many channels.
func sided(input, symbol string, batch any, width int) []byte {
	g := Graph{In: []Value{Float(input, batch, 3, symbol, symbol)}, Out: []Value{{Name: "y"}}}
	g.Inits = []Tensor{Bare("w", onnxload.Float32, int64(width), 3, 3, 3)}
	g.Nodes = []Node{{Op: "Conv", Name: "/conv/Conv", In: []string{input, "w"}, Out: []string{"a"},
		Attrs: []Attr{A("pads", []int64{1, 1, 1, 1}), A("kernel_shape", []int64{3, 3})}},
		{Op: "Relu", Name: "/relu/Relu", In: []string{"a"}, Out: []string{"y"}}}
	return Model{Opset: 17, Producer: "pytorch", Graph: g}.Bytes()
}

// strange is a network whose middle is an operator that nobody knows.
func strange() []byte {
	g := Graph{In: []Value{Float("input", "batch", 3, 64, 64)}, Out: []Value{{Name: "y"}}}
	g.Nodes = []Node{{Op: "Relu", Name: "/relu/Relu", In: []string{"input"}, Out: []string{"a"}},
		{Op: "Mystery", Name: "/m/Mystery", In: []string{"a"}, Out: []string{"b"}},
		{Op: "Relu", Name: "/last/Relu", In: []string{"b"}, Out: []string{"y"}}}
	g.Out = []Value{Float("y", "batch", 3, 64, 64)}
	g.Infos = []Value{Float("b", "batch", 3, 64, 64)}
	return Model{Opset: 17, Producer: "pytorch", Graph: g}.Bytes()
}

// Ways to get growth past the check, none of which leads there: what grows is over its limit, and what cannot be
// compared is an error.
func TestNoWayRound(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links, pipes and devices")
	}
	for _, tt := range []struct {
		name string
		try  func(y *yard) []string // what else is on the command line
		code int
		says string
	}{
		{"none: growth as it is", func(y *yard) []string { y.put("nets/net.onnx", "inserted"); return nil }, exitNo,
			"over +5%"},
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
		{"a file that is moved and changed", func(y *yard) []string {
			y.git("mv", "nets/net.onnx", "nets/new.onnx")
			y.put("nets/new.onnx", "inserted")
			return nil
		}, exitNo, "`nets/new.onnx` was `nets/net.onnx`"},
		{"a file that is moved to another folder and committed", func(y *yard) []string {
			y.write("memestimate.yaml", strings.Replace(growthBudget, "nets/*.onnx", "'**/*.onnx'", 1))
			y.commit()
			y.git("mv", "nets/net.onnx", "other.onnx")
			y.put("other.onnx", "inserted")
			y.commit()
			return []string{"--base", "HEAD~1"}
		}, exitNo, "over +5%"},
		{"a copy that takes the place of the model", func(y *yard) []string {
			y.put("nets/big.onnx",
				"inserted")
			return nil
		}, exitNo, "list it under new"},
		{"a model that the entry says is new, which is not", func(y *yard) []string {
			y.write("memestimate.yaml",
				"settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {growth: 5%}, new: nets/*.onnx}\n")
			y.put("nets/net.onnx", "inserted")
			return nil
		}, exitNo, "over +5%"},
		{"a dimension that is renamed", func(y *yard) []string {
			y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "batch: 64, dim: {edge: 64}", 1))
			y.write("nets/net.onnx", string(sided("x", "side", "n", 64)))
			y.commit()
			y.write("nets/net.onnx", string(sided("x", "edge", "batch", 256)))
			return nil
		}, exitNo, "over +5%"},
		{"an input that is renamed", func(y *yard) []string {
			y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "input: {picture: 64x3x64x64}", 1))
			y.write("nets/net.onnx", string(sided("x", "side", "n", 64)))
			y.commit()
			y.write("nets/net.onnx", string(sided("picture", "edge", "batch", 256)))
			return nil
		}, exitNo, "over +5%"},
		{"a base that these settings do not fit", func(y *yard) []string {
			y.write("nets/net.onnx", string(sided("x", "side", "n", 64)))
			y.commit()
			y.put("nets/net.onnx", "inserted")
			return nil
		}, exitInput, "in the base: "},
		{"a batch that is written into the model", func(y *yard) []string {
			y.write("nets/net.onnx", string(sided("x", "side", 1, 64)))
			return nil
		}, exitInput, "batch"},
		{"no models", func(y *yard) []string { y.remove("nets/net.onnx"); return nil }, exitInput, "no such file"},
		{"an empty list of models", func(y *yard) []string { y.write("memestimate.yaml", "models: []\n"); return nil },
			exitInput, "models is an empty list"},
		{"everything excluded", func(y *yard) []string {
			y.write("memestimate.yaml",
				"settings: {batch: 256}\nmodels:\n  - path: nets/*.onnx\n    limits: {growth: 5%}\n    exclude: '**'\n")
			return nil
		}, exitInput, "leave no model of this entry"},
		{"a pipe among the models", func(y *yard) []string {
			makePipe(y.T, y.path("nets/pipe.onnx"))
			return nil
		}, exitInput, "nets/pipe.onnx is a pipe"},
		{"a device among the models", func(y *yard) []string { y.link("/dev/zero", "nets/zero.onnx"); return nil },
			exitInput, "nets/zero.onnx is a device"},
		{"a folder in the place of the model", func(y *yard) []string {
			y.write("memestimate.yaml", strings.Replace(growthBudget, "nets/*.onnx", "nets/net.onnx", 1))
			y.remove("nets/net.onnx")
			y.must(os.Mkdir(y.path("nets/net.onnx"), 0o777))
			return nil
		}, exitInput, "is a folder"},
		{"a link to nothing", func(y *yard) []string { y.link("gone", "nets/gone.onnx"); return nil }, exitInput,
			"nets/*.onnx"},
		{"a link out of the repository", func(y *yard) []string {
			outside := filepath.Join(y.TempDir(), "net.onnx")
			write(y.T, outside, string(y.nets["base"]))
			y.link(outside, "nets/outside.onnx")
			return nil
		}, exitInput, "leads out of the repository"},
		{"a link that stays while what it leads to grows", func(y *yard) []string {
			y.remove("nets/net.onnx")
			y.put("kept/v1.bin", "base")
			y.link("../kept/v1.bin", "nets/net.onnx")
			y.commit()
			y.put("kept/v1.bin", "inserted")
			return nil
		}, exitNo, "over +5%"},
		{"a file that git is told not to look at", func(y *yard) []string {
			y.git("update-index", "--assume-unchanged", "nets/net.onnx")
			y.put("nets/net.onnx", "inserted")
			return nil
		}, exitNo, "over +5%"},
		{"attributes that make different bytes the same", func(y *yard) []string {
			y.write(".gitattributes", "*.onnx -diff ident text eol=crlf\n")
			y.put("nets/net.onnx", "inserted")
			return nil
		}, exitNo, "over +5%"},
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
			y.git("branch", "trunk")
			y.git("update-ref", "refs/remotes/origin/trunk", "HEAD")
			y.put("nets/net.onnx", "inserted")
			y.write("memestimate.yaml", "base: HEAD~1\n"+growthBudget)
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
		{"operators that nobody knows", func(y *yard) []string { y.write("nets/net.onnx", string(strange())); return nil },
			exitNo, "a lower bound: Mystery is not modelled"},
		{"a GPU on which the run ends before its peak", func(y *yard) []string {
			y.write("memestimate.yaml", strings.Replace(growthBudget, "batch: 256", "batch: 4096, gpu: t4", 1))
			y.put("nets/net.onnx", "widened")
			return nil
		}, exitNo, "out of memory in the "},
		{"a submodule in the place of the folder", func(y *yard) []string {
			head := y.revision("HEAD")
			y.git("rm", "-rq", "--cached", "nets")
			y.git("update-index", "--add", "--cacheinfo", "160000,"+head+",nets")
			y.git("commit", "-qm", "submodule")
			y.put("nets/net.onnx", "inserted")
			return nil
		}, exitNo, "nets is a submodule"},
		{"a name with a line feed", func(y *yard) []string {
			y.put("nets/a\nb.onnx", "base")
			y.commit()
			y.put("nets/a\nb.onnx", "inserted")
			return nil
		}, exitNo, "over +5%"},
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
		{"a folder that is a repository of its own making", func(y *yard) []string {
			y.must(os.Rename(y.path(".git"), y.path("x")))
			y.git("init", "-q", "--bare", ".")
			y.write("config", "[core]\n\tbare = true\n\tfsmonitor = touch "+y.path("ran")+"\n")
			return nil
		}, exitInput, "git rev-parse: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			args := tt.try(y)
			begun := time.Now()
			output, code := y.check(args...)
			if code != tt.code || !strings.Contains(output, tt.says) {
				t.Errorf("code %d, want %d and %q\n%s", code, tt.code, tt.says, output)
			}
			if strings.Contains(strings.ToLower(output), "within budget") &&
				!strings.Contains(output, "unchanged and within budget") {
				t.Errorf("it is called within budget:\n%s", output)
			}
			if _, err := os.Stat(y.path("ran")); err == nil {
				t.Error("the repository had a command run")
			}
			if d := time.Since(begun); d > time.Minute {
				t.Errorf("it took %v", d)
			}
		})
	}
}

// event makes the surroundings those of a workflow of GitHub.
func (y *yard) event(json string) {
	y.Helper()
	path := filepath.Join(y.TempDir(), "event.json")
	write(y.T, path, json)
	y.env["GITHUB_ACTIONS"], y.env["GITHUB_EVENT_PATH"] = "true", path
}

// What is honest passes: a model that the entry says is new, a file that only moved, one that git-lfs keeps and is
// here.
func TestHonestWays(t *testing.T) {
	for _, tt := range []struct {
		name string
		try  func(y *yard) []string
		says string
	}{
		{"unchanged", func(y *yard) []string { return nil }, "1 model unchanged and within budget"},
		{"moved", func(y *yard) []string { y.git("mv", "nets/net.onnx", "nets/other.onnx"); return nil },
			"`nets/other.onnx` was `nets/net.onnx`"},
		{"new", func(y *yard) []string {
			y.write("memestimate.yaml",
				"settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {growth: 5%}, new: nets/big.onnx}\n")
			y.put("nets/big.onnx", "inserted")
			return nil
		}, "new: nothing to grow from, as the entry says"},
		{"a lower bound that is accepted", func(y *yard) []string {
			y.write("memestimate.yaml",
				"settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {growth: 5%}, lower-bound: true}\n")
			y.write("nets/net.onnx", string(strange()))
			y.commit()
			return nil
		}, "within budget"},
		{"limits that change, models that go", func(y *yard) []string {
			y.put("nets/gone.onnx", "widened")
			y.put("nets/left.onnx", "widened")
			y.write("memestimate.yaml", "settings: {batch: 256}\nmodels: {path: nets/*.onnx, limits: {device: 4GiB}}\n")
			y.commit()
			y.remove("nets/gone.onnx")
			y.write("memestimate.yaml",
				"base: HEAD\nsettings: {batch: 128}\nmodels: {path: nets/*.onnx, limits: {device: 64GiB, growth: 10%}, "+
					"exclude: nets/left.onnx}\n")
			return nil
		}, "- `base` goes from nothing to `HEAD`\n- `device` goes from `4.00 GiB` to `64.00 GiB` for `nets/net.onnx`\n- " +
			"`growth` goes from nothing to `10%` for `nets/net.onnx`\n- `batch` goes from `256` to `128` for " +
			"`nets/net.onnx`\n\n" +
			"**2 models no longer checked:**\n\n- `nets/gone.onnx`: deleted\n- `nets/left.onnx`: no path of " +
			"memestimate.yaml matches it now\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			y := newYard(t)
			output, code := y.check(tt.try(y)...)
			if code != exitOK || !strings.Contains(output, tt.says) ||
				!strings.HasPrefix(output, "### GPU memory: within budget\n") {
				t.Errorf("code %d, want %q\n%s", code, tt.says, output)
			}
		})
	}
}
