package main

import (
	"bytes"
	"encoding/binary"
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
func (y *yard) link(to, name string) { y.Helper(); y.must(os.Symlink(to, y.path(name))) }

// elsewhere makes a reference to a commit that has what is in the work tree, and goes back.
func (y *yard) elsewhere(ref string) {
	y.Helper()
	y.git("stash", "push", "-q", "--include-untracked")
	y.git("checkout", "-q", "--detach")
	y.git("stash", "apply", "-q")
	y.write("elsewhere", ref) // no commit is that of a branch
	y.commit()
	y.git("update-ref", ref, "HEAD")
	y.git("checkout", "-q", "-")
	y.git("stash", "pop", "-q")
}
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

// expanded is a network whose result has the shape that a file beside it says.
func expanded() []byte {
	g := Graph{In: []Value{Float("x", "batch", 1, 1, 1)}, Out: []Value{{Name: "y"}}}
	shape := Bare("shape", onnxload.Int64, 4)
	shape.External = []string{"location", "shape.bin"}
	g.Inits = []Tensor{shape}
	g.Nodes = []Node{{Op: "Expand", Name: "/Expand", In: []string{"x", "shape"}, Out: []string{"a"}},
		{Op: "Relu", Name: "/relu/Relu", In: []string{"a"}, Out: []string{"y"}}}
	return Model{Opset: 17, Producer: "pytorch", Graph: g}.Bytes()
}

// int64s is what a file of external data holds.
func int64s(all ...int64) string {
	var b []byte
	for _, n := range all {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return string(b)
}

// lfsPointer is what git has in the place of a file that git-lfs keeps.
var lfsPointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + strings.Repeat("4d", 32) +
	"\nsize 102400\n"

// An attempt is a way to get growth past the check: what grows must be over its limit, and what cannot be compared an
// error.
type attempt struct {
	name string
	try  func(y *yard) []string // what else is on the command line
	code int
	says string
}

// holdOff runs attempts, none of which may succeed.
func holdOff(t *testing.T, all []attempt) {
	if runtime.GOOS == "windows" {
		t.Skip("links, pipes and devices")
	}
	for _, tt := range all {
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
