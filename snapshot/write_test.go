package snapshot

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
	"github.com/memestimate/memestimate/test/testfile"
)

// files lists the recorded snapshots, without their ending.
func files(t testing.TB) []string {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.pickle.gz")
	if err != nil || len(paths) != 9 {
		t.Fatalf("%d snapshots in testdata, wanted 9 (%v)", len(paths), err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, strings.TrimSuffix(filepath.Base(p), ".pickle.gz"))
	}
	return names
}

// unpacked returns the pickle of a recorded snapshot.
func unpacked(t testing.TB, name string) []byte {
	t.Helper()
	return testfile.Unzipped(t, filepath.Join("testdata", name+".pickle.gz"))
}

func written(t testing.TB, s *Snapshot) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, s.write(&b, func(yield func(*Event) bool) {
		for _, e := range s.Trace(0).All() {
			if !yield(e) {
				return
			}
		}
	}))
	return b.Bytes()
}

func reread(t testing.TB, b []byte) *Snapshot {
	t.Helper()
	s, err := Read(bytes.NewReader(b), Options{})
	must.OK(t, err)
	return s
}

// Reading what was written of a device gives the same snapshot: it writes the same bytes.
func TestRoundTrip(t *testing.T) {
	for _, name := range files(t) {
		first := written(t, load(t, name))
		second := written(t, reread(t, first))
		if !bytes.Equal(first, second) {
			t.Errorf("%s: read, write, read gives another snapshot", name)
		}
	}
}

const equalPy = `
import pickle, sys
def same(a, b, path):
    if type(a) is not type(b): raise SystemExit(f"{path}: {type(a)} {type(b)}")
    if isinstance(a, dict):
        if a.keys() != b.keys(): raise SystemExit(f"{path}: keys {a.keys() ^ b.keys()}")
        for k in a: same(a[k], b[k], f"{path}.{k}")
    elif isinstance(a, (list, tuple)):
        if len(a) != len(b): raise SystemExit(f"{path}: length {len(a)} {len(b)}")
        for i, (x, y) in enumerate(zip(a, b)): same(x, y, f"{path}[{i}]")
    elif a != b and not (a != a and b != b): raise SystemExit(f"{path}: {a!r} {b!r}")
same(pickle.load(open(sys.argv[1], "rb")), pickle.load(open(sys.argv[2], "rb")), "top")
print("equal")
`

func python(t testing.TB) string {
	t.Helper()
	p, err := exec.LookPath("python3")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("python3 is not installed: what CPython makes of written snapshots is not tested")
		}
		t.Skip("python3 is not installed: what CPython makes of written snapshots is not tested")
	}
	return p
}

// samePython asks CPython whether two pickles hold the same structure, types included.
func samePython(t *testing.T, name string, a, b []byte) {
	t.Helper()
	dir := t.TempDir()
	pa, pb := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	for p, data := range map[string][]byte{pa: a, pb: b} {
		must.OK(t, os.WriteFile(p, data, 0o600))
	}
	out, err := exec.Command(python(t), "-c", equalPy, pa, pb).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "equal" {
		t.Errorf("%s: %v: %s", name, err, out)
	}
}
