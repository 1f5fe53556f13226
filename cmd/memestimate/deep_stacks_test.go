package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/snapshot"
	"github.com/memestimate/memestimate/test/must"
)

const recordingHeader = `{"format": "memestimate-recording/1","producer":"x","torch":"2.11.0","python":"3.11.7","cudnn":91900,` +
	`"cuda":"13.0","way":"fake-cuda-no-driver","gpu":{"name":"h200","capability":[9,0],"multiprocessors":132,` +
	`"memory":150109880320},"world_size":1,"rank":0,"alloc_conf":"","cudnn_benchmark":false,"allow_tf32":true}` + "\n"

// hostileFile writes a recording.
func hostileFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write([]byte(text))
	if err = errors.Join(err, z.Close(), os.WriteFile(path, packed.Bytes(), 0o666)); err != nil {
		t.Fatal(err)
	}
	return path
}

// A result that is the sum of itself has a block of its own: the search for the storage that it stands for ends.
func TestSumOfItsOwnResult(t *testing.T) {
	path := hostileFile(t, "self.mrec", recordingHeader+`["meta","float32",[8],[1],0]
["op","aten::add","Tensor"]
["call",0,["c:0","c:0",1],["0:0"],-1,-1]
["alloc",0,32]
["sum",0]
["is",0,"gradient","w"]
["end",6]
`)
	for _, format := range []string{"text", "json", "html", "csv"} {
		stdout, stderr, code := try(t, path, "--format", format)
		if code != exitOK || format == "json" && !strings.Contains(stdout, `"allocated_bytes": 512`) {
			t.Errorf("%s: exit code %d: %s\n%.300s", format, code, stderr, stdout)
		}
	}
}

// A recording's stacks share their callers; in a snapshot and on a page each is a list. What is written of stacks that
// get ever deeper grows as the file does.
func TestDeepStacksAreCut(t *testing.T) {
	const deep = 6000
	var b strings.Builder
	b.WriteString(recordingHeader + `["meta","float32",[256],[1],0]` + "\n" + `["op","aten::add","Tensor"]` + "\n")
	for i := range deep {
		fmt.Fprintf(&b, "[\"frame\",%d,\"a.py\",%d,\"f%d\"]\n", i-1, i, i)
		fmt.Fprintf(&b, "[\"call\",0,[],[\"%d:0\"],%d,-1]\n[\"alloc\",%d,1024]\n", i, i, i)
	}
	fmt.Fprintf(&b, "[\"end\",%d]\n", 2+3*deep)
	path := hostileFile(t, "deep.mrec", b.String())
	out := filepath.Join(t.TempDir(), "run.pickle")
	if _, stderr, code := try(t, path, "--snapshot", out); code != exitOK {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	info, err := os.Stat(out)
	must.OK(t, err)
	// a million frames of five bytes, and 64 a stack
	if most := int64(5*manyFrames + 6*enoughFrames*deep + 24*b.Len()); info.Size() > most {
		t.Errorf("a recording of %d bytes is a snapshot of %d, want %d at most", b.Len(), info.Size(), most)
	}
	in, err := os.Open(out)
	must.OK(t, err)
	defer in.Close()
	s, err := snapshot.Read(in, snapshot.Options{})
	must.OK(t, err)
	cut := 0
	for i := range s.Frames {
		if s.Frames[i].Name == "... more calls, left out" {
			cut++
		}
	}
	if cut == 0 {
		t.Error("no stack is said to be cut")
	}
	page, stderr, code := try(t, path, "--format", "html")
	if code != exitOK || len(page) > 30*b.Len() {
		t.Errorf("a recording of %d bytes is a page of %d: exit code %d, %s", b.Len(), len(page), code, stderr)
	}
}

// What is written of a hostile model is a pickle that Python loads, whatever bytes its names have.
func TestSnapshotsOfHostileFiles(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is not installed: what CPython makes of written snapshots is not tested")
		}
		t.Skip("python3 is not installed: what CPython makes of written snapshots is not tested")
	}
	dir := t.TempDir()
	names, files := hostileFiles(t)
	names = append(names, "A62 names of no UTF-8")
	files["A62 names of no UTF-8"] = Model{Opset: 17, Graph: Graph{In: []Value{Float("\xff\xfe", 2, 3)},
		Nodes: []Node{{Op: "Sigmoid", Name: "\xed\xa0\x80\x9b", In: []string{"\xff\xfe"}, Out: []string{"\x80"}},
			{Op: "Exp", Name: "/\xc3(/\xfe", In: []string{"\x80"}, Out: []string{"y"}}}, Out: []Value{{Name: "y"}}}}.Bytes()
	model, written := filepath.Join(dir, "model.onnx"), []string{}
	for _, name := range names {
		if len(files[name]) > 64<<10 {
			continue
		}
		write(t, model, string(files[name]))
		snapshot := filepath.Join(dir, name+".pickle")
		if _, _, code := try(t, model, "--snapshot", snapshot); code == exitOK {
			written = append(written, snapshot)
		}
	}
	if len(written) < 20 || written[len(written)-1] != filepath.Join(dir, "A62 names of no UTF-8.pickle") {
		t.Errorf("%d snapshots of %d files", len(written), len(names))
	}
	const load = `import pickle, sys
for path in sys.argv[1:]:
    with open(path, "rb") as f:
        s = pickle.load(f)
    assert s["segments"] is not None and len(s["device_traces"]) > 0, path
`
	if out, err := exec.Command(python, append([]string{"-c", load}, written...)...).CombinedOutput(); err != nil {
		t.Errorf("Python does not load what is written: %v: %s", err, out)
	}
	t.Logf("%d snapshots", len(written))
}
