package snapshot

import (
	"archive/zip"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// zipOf writes a zip archive and opens it.
func zipOf(t *testing.T, files ...string) *os.File {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		w, err := z.Create(files[i])
		must.OK(t, err)
		fmt.Fprint(w, files[i+1])
	}
	must.OK(t, z.Close())
	return opened(t, b.Bytes())
}

func opened(t *testing.T, data []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.zip")
	must.OK(t, os.WriteFile(path, data, 0o600))
	f, err := os.Open(path)
	must.OK(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// A zip archive with one pickle is read, whatever else is in it.
func TestZip(t *testing.T) {
	data := string(unpacked(t, "oom"))
	for name, f := range map[string]*os.File{
		"alone":      zipOf(t, "run.pickle", data),
		"packed":     zipOf(t, "run.pickle.gz", gz(data)),
		"torch.save": zipOf(t, "archive/data.pkl", data, "archive/version", "3"),
	} {
		s, err := Read(f, Options{})
		if err != nil || s.Events() != 44 {
			t.Errorf("%s: %v", name, err)
		}
	}
	names := make([]string, 0, 80_000)
	for i := range 40_000 {
		names = append(names, fmt.Sprint(i), "")
	}
	whole := zipOf(t, "run.pickle", data)
	raw := must.Read(t, whole.Name())
	for want, f := range map[string]*os.File{
		"several pickles":        zipOf(t, "a.pickle", data, "b.pickle", data),
		"no file in it ends in":  zipOf(t, "weights.bin", data),
		"a list of files of":     zipOf(t, names...),
		"not all of it is there": opened(t, raw[:len(raw)/2]),
		"gzip within gzip":       zipOf(t, "a.pickle.gz", gz(gz(data))),
	} {
		if _, err := Read(f, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, wanted %q", err, want)
		}
	}
	if _, err := Read(bytes.NewReader(raw), Options{}); err == nil || !strings.Contains(err.Error(), "give it as a file") {
		t.Errorf("from a stream: %v", err)
	}
}

// What Python's zipfile makes is read as well.
func TestPythonZip(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.zip")
	script := "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED)\nz.writestr('dir/', " +
		"b'')\nz.writestr('dir/s.pickle', sys.stdin.buffer.read())\nz.close()"
	cmd := exec.Command(python(t), "-c", script, path)
	cmd.Stdin = bytes.NewReader(unpacked(t, "mem_track_1_model"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	f, err := os.Open(path)
	must.OK(t, err)
	defer f.Close()
	if s, err := Read(f, Options{}); err != nil || s.Events() == 0 {
		t.Error(err)
	}
}

func load(t testing.TB, name string) *Snapshot {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".pickle.gz"))
	must.OK(t, err)
	defer f.Close()
	s, err := Read(f, Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// high is an integer with the top bit of 64 set, as Python writes it.
func high(n uint64) string { return "\x8a\x09" + u64(n) + "\x00" }

// XPUs have addresses with the top bit set (here one that a public report has), and some writers give a segment's pool
// as a list. Fields that nobody knows are passed over. What is written is read as the same again.
func TestHighAddresses(t *testing.T) {
	const at = 18446720620317114368
	text := snap(list(dict("device", num(0), "address", high(at), "total_size", num(2<<20), "allocated_size", num(512),
		"stream", num(0), "segment_type", str("small"), "segment_pool_id", list(num(0), num(1)), "of_the_future", num(7),
		"blocks", list(dict("address", high(at), "size", num(512), "state", str("active_allocated")),
			dict("address", high(at+512), "size", num(2<<20-512), "state", str("inactive"))))),
		trace(dict("action", str("segment_alloc"), "addr", high(at), "size", num(2<<20), "stream", num(0)),
			dict("action", str("alloc"), "addr", high(at), "size", num(512), "stream", num(0))))
	s, err := Read(strings.NewReader(text), Options{})
	must.OK(t, err)
	for range 2 {
		g := &s.Segments[0]
		if uint64(g.Addr) != at || g.Pool != [2]int64{0, 1} || len(g.Blocks) != 2 || uint64(g.Blocks[1].Addr) != at+512 {
			t.Fatalf("%+v", g)
		}
		if f := s.Figures(0); f.Allocated != 512 {
			t.Fatalf("%+v", f)
		}
		s = reread(t, written(t, s))
	}
}
