package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// onnx-go reads every built-in graph as we do, node by node.
func TestCrossCheckBuiltins(t *testing.T) {
	nodes := 0
	for _, name := range models.Names() {
		info, err := models.Info(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range info.Forms {
			m, err := resolve(name + ":" + form).open(&env{})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := onnxgo.Check(m)
			if err != nil {
				t.Errorf("%s:%s: %v", name, form, err)
			}
			nodes += rep.Nodes
		}
	}
	t.Logf("%d nodes agree", nodes)
}

// calledOften is a model whose function has a text of many bytes and is called many times: onnx-go is given the text
// once for each call.
func calledOften(text, calls int) []byte {
	g := Graph{In: []Value{Float("v0", 1)}, Out: []Value{{Name: fmt.Sprint("v", calls)}}}
	for i := range calls {
		g.Nodes = append(g.Nodes, Op("f", fmt.Sprint("v", i), fmt.Sprint("v", i+1)).Of("l"))
	}
	return Model{Opset: 17, Opsets: []Import{Domain("l", 1)}, Graph: g, Functions: []Function{{
		Domain: "l", Name: "f", In: []string{"a"}, Out: []string{"b"}, Opsets: []Import{Domain("", 17)},
		Nodes: []Node{Op("Neg", "a", "b", A("text", strings.Repeat("t", text)))},
	}}}.Bytes()
}

// A model that onnx-go takes gigabytes or minutes for ends onnx-go, in a process of its own, and is refused in one
// line. This one needs 7 GB.
func TestCrossCheckEndsWhatTakesTooMuch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "often.onnx")
	if err := os.WriteFile(file, calledOften(1<<20, 2000), 0o666); err != nil {
		t.Fatal(err)
	}
	was := crossCheckLimits
	defer func() { crossCheckLimits = was }()
	for _, c := range []struct {
		may   allowance
		model string
		want  string
	}{
		{allowance{192 << 20, time.Minute}, file,
			file + ": --cross-check: onnx-go was ended, it took more than 192.00 MiB of memory for this model"},
		{allowance{1 << 30, time.Microsecond}, "swin_t",
			"swin_t: --cross-check: onnx-go was ended, it took more than 1µs for this model"},
	} {
		crossCheckLimits = c.may
		start := time.Now()
		stdout, stderr, code := try(t, "shapes", c.model, "--batch", "2", "--cross-check")
		if code != exitInput || stdout != "" || stderr != "memestimate: "+c.want+"\n" {
			t.Errorf("%s: code %d, %.200q, %q, want %q", c.model, code, stdout, stderr, c.want)
		}
		if d := time.Since(start); d > 30*time.Second {
			t.Errorf("%s: ended after %v", c.model, d)
		}
	}
}

// One allocation beyond the limit fails, on systems that refuse it; nobody could watch it come.
func TestOneLargeAllocation(t *testing.T) {
	if !memoryIsLimited {
		t.Skip("this system does not refuse memory")
	}
	if os.Getenv(aloneEnv) == t.Name() {
		limitMemory(256 << 20)
		b := make([]byte, 1<<30)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		runtime.KeepAlive(b)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), aloneEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err == nil || !refusedMemory(string(out)) {
		t.Errorf("1 GB within a limit of 256 MB: %v, %.300s", err, out)
	}
}

// What is read along of a stream is all of it, also when nobody listens any more.
func TestDeafWriter(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	model := calledOften(10, 3)
	m, err := onnxload.ReadStream(source{also: &deaf{w: w}}.tee(strings.NewReader(string(model))), onnxload.Options{})
	if err != nil || len(m.Graph.Nodes) != 3 {
		t.Errorf("%v, want three nodes", err)
	}
}
