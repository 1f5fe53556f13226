package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
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
		data := must.Read(t, filepath.Join(from, name+".onnx"))
		y.nets[name] = data
	}
	y.git("init", "-q")
	y.write("memestimate.yaml", growthBudget)
	y.put("nets/net.onnx", "base")
	y.commit()
	return y
}

func (y *yard) path(name string) string { return filepath.Join(y.dir, filepath.FromSlash(name)) }

func (y *yard) git(args ...string) { y.Helper(); gitIn(y.T, y.dir, args...) }

func (y *yard) write(name, text string) { y.Helper(); write(y.T, y.path(name), text) }

func (y *yard) put(name, net string) { y.Helper(); y.write(name, string(y.nets[net])) }

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

func (y *yard) remove(name string) { y.Helper(); y.must(os.RemoveAll(y.path(name))) }

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

// event makes the surroundings those of a workflow of GitHub.
func (y *yard) event(json string) {
	y.Helper()
	path := filepath.Join(y.TempDir(), "event.json")
	write(y.T, path, json)
	y.env["GITHUB_ACTIONS"], y.env["GITHUB_EVENT_PATH"] = "true", path
}
