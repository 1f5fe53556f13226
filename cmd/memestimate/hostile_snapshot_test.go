package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

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
