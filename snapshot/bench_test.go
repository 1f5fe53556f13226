package snapshot

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// longer repeats the trace of a recorded file until it has about so many bytes,
// with objects shared as PyTorch shares them: frames everywhere, the list of
// frames between the two events of a free.
const longerPy = `
import gzip, pickle, sys
s = pickle.loads(gzip.open(sys.argv[1]).read())
base, out, k = s["device_traces"][0], [], 0
span = base[-1]["time_us"] - base[0]["time_us"] + 1000
while len(out) * 90 < int(sys.argv[3]):
    last = None
    for e in base:
        e = dict(e, time_us=e["time_us"] + k * span)
        if "frames" in e:
            e["frames"] = last = last if e["action"] == "free_completed" and last is not None else list(e["frames"])
        out.append(e)
    k += 1
s["device_traces"][0] = out
pickle.dump(s, open(sys.argv[2], "wb"))
`

const loadPy = `
import pickle, resource, sys, time
a = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
t = time.perf_counter()
s = pickle.load(open(sys.argv[1], "rb"))
print(time.perf_counter() - t, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - a) * 1024)
`

// longFile writes a snapshot of about so many bytes and returns its path.
func longFile(t testing.TB, size int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "long.pickle")
	out, err := exec.Command(python(t), "-c", longerPy, "testdata/resnet50_seed.pickle.gz", path,
		strconv.Itoa(size)).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return path
}

// maxRSS is the most memory that this process has had, in bytes; 0 where the
// system does not tell.
func maxRSS() int64 {
	b, _ := os.ReadFile("/proc/self/status")
	_, after, ok := bytes.Cut(b, []byte("VmHWM:"))
	if !ok {
		return 0
	}
	var n int64
	fmt.Sscan(string(after), &n)
	return n * 1024
}

const (
	readEnv  = "MEMESTIMATE_TEST_READ"
	visitEnv = "MEMESTIMATE_TEST_VISIT"
)

// TestReadChild is not a test of its own: as a child process it reads one file
// and prints the seconds and the bytes that this took.
func TestReadChild(t *testing.T) {
	path := os.Getenv(readEnv)
	if path == "" {
		t.Skip("run by the benchmark")
	}
	before := maxRSS()
	start := time.Now()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	opts := Options{}
	if os.Getenv(visitEnv) != "" {
		opts.Visit = func(*Snapshot, int, *Event) error { return nil }
	}
	s, err := Read(f, opts)
	took := time.Since(start)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("read %g %d %d\n", took.Seconds(), maxRSS()-before, s.Events())
}

// inChild reads a file in a process of its own: the seconds and the bytes it took.
func inChild(t testing.TB, path string, env ...string) (seconds float64, bytes int64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReadChild$")
	cmd.Env = append(append(os.Environ(), readEnv+"="+path), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := fmt.Sscanf(string(out), "read %g %d", &seconds, &bytes); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	return seconds, bytes
}

// BenchmarkRead reads a 30 MB snapshot, and has CPython read it too, each in
// fresh processes.
func BenchmarkRead(b *testing.B) {
	path := longFile(b, 30_000_000)
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(info.Size())
	goTime, pyTime := 1e9, 1e9
	var goMem, pyMem int64 = 1 << 60, 1 << 60
	for range 5 {
		t, m := inChild(b, path)
		goTime, goMem = min(goTime, t), min(goMem, m)
		out, err := exec.Command(python(b), "-c", loadPy, path).Output()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := fmt.Sscan(strings.TrimSpace(string(out)), &t, &m); err != nil {
			b.Fatal(err)
		}
		pyTime, pyMem = min(pyTime, t), min(pyMem, m)
	}
	for b.Loop() {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Read(f, Options{}); err != nil {
			b.Fatal(err)
		}
		f.Close()
	}
	b.ReportMetric(goTime*1e3, "read-ms")
	b.ReportMetric(pyTime*1e3, "python-ms")
	b.ReportMetric(float64(goMem)/1e6, "read-MB")
	b.ReportMetric(float64(pyMem)/1e6, "python-MB")
	b.ReportMetric(pyTime/goTime, "x-faster")
	b.ReportMetric(float64(pyMem)/float64(goMem), "x-smaller")
}
