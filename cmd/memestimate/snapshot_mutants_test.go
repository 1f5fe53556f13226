package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// aloneEnv marks the process of a test that measures what its own process takes.
const aloneEnv = "MEMESTIMATE_TEST_ALONE"

// alone runs the test in a process of its own, where it is true. At its end that process may not have taken more than
// 256 MB and four bytes for each byte of the largest file, however many files it was given.
func alone(t *testing.T, files [][]byte) bool {
	t.Helper()
	if os.Getenv(aloneEnv) == t.Name() {
		t.Cleanup(func() {
			bound := int64(256_000_000)
			for _, f := range files {
				bound = max(bound, 256_000_000+4*int64(len(f)))
			}
			if most := mostResident(t); most > bound {
				t.Errorf("the process took %d bytes, %d at most are wanted", most, bound)
			} else {
				t.Logf("the process took %d MB of %d", most/1e6, bound/1e6)
			}
		})
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v",
		"-test.short="+strconv.FormatBool(testing.Short()), "-test.timeout=0")
	cmd.Env = append(os.Environ(), aloneEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %.8000s", err, out)
	}
	t.Logf("%.8000s", out)
	return false
}

// mostResident is the most memory that this process has had, in bytes; 0 where the system does not tell.
func mostResident(t *testing.T) int64 {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, after, _ := strings.Cut(string(b), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
	return kilobytes << 10
}

// mutations is how many damaged snapshots are tried: MEMESTIMATE_MUTATIONS, or a few.
func mutations(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS")); err == nil {
		return n
	}
	if testing.Short() {
		return 200
	}
	return 1500
}

// pickles are the recorded snapshots, unpacked.
func pickles(t *testing.T) [][]byte {
	t.Helper()
	var out [][]byte
	paths, _ := filepath.Glob(pickle("*"))
	more, _ := filepath.Glob(filepath.Join(recorded, "odd", "*.pickle"))
	for _, p := range append(paths, more...) {
		b := must.Read(t, p)
		if bytes.HasPrefix(b, []byte("\x1f\x8b")) {
			z, err := gzip.NewReader(bytes.NewReader(b))
			must.OK(t, err)
			if b, err = io.ReadAll(z); err != nil {
				t.Fatal(err)
			}
		}
		out = append(out, b)
	}
	if len(out) != 19 {
		t.Fatalf("%d snapshots", len(out))
	}
	return out
}

// damagedArgs are the commands that damaged files are given to.
var damagedArgs = [][]string{
	{"show", "-"}, {"show", "-", "--format", "json"}, {"html", "-"},
}

// show gives a file to a command of "snapshot": it must answer, or refuse it in one line.
func show(t *testing.T, file []byte, args ...string) (code int) {
	t.Helper()
	defer func() {
		if p := recover(); p != nil {
			t.Fatalf("%q panics: %v\n%s", args, p, debug.Stack())
		}
	}()
	var out, errs bytes.Buffer
	e := &env{stdin: bytes.NewReader(file), stdout: &out, stderr: &errs, getenv: func(string) string { return "" }}
	code = run(context.Background(), e, append([]string{"snapshot"}, args...))
	switch {
	// no: memory runs out in the replay
	case code == exitOK && errs.Len() == 0 && out.Len() > 0:
	case code == exitInput && strings.Count(errs.String(), "\n") <= 2 && out.Len() == 0:
	default:
		t.Fatalf("%q: exit code %d, %d bytes, %q", args, code, out.Len(), errs.String())
	}
	for _, c := range out.Bytes() {
		if c < ' ' && c != '\n' && c != '\t' {
			t.Fatalf("%q prints the byte %#x", args, c)
		}
	}
	return code
}

// A snapshot that is cut short at any byte is refused.
func TestSnapshotCutAnywhere(t *testing.T) {
	files := pickles(t)
	if !alone(t, files) {
		return
	}
	for _, file := range files {
		stride := max(len(file)/40, 1) // the reader's own test takes every byte
		if os.Getenv("MEMESTIMATE_MUTATIONS") != "" && len(file) < 10_000 {
			stride = 1
		}
		for n := 0; n < len(file); n += stride {
			if code := show(t, file[:n], "show", "-"); code != exitInput {
				t.Fatalf("cut at %d of %d bytes it still reads", n, len(file))
			}
		}
	}
}

// Whatever happened to a snapshot, it is told or refused.
func TestSnapshotMutants(t *testing.T) {
	files := pickles(t)
	if !alone(t, files) {
		return
	}
	small := files[:0:0]
	for _, f := range files {
		if len(f) < 60_000 {
			small = append(small, f)
		}
	}
	answered, n := 0, mutations(t)
	for seed := range n {
		rng := rand.New(rand.NewPCG(uint64(seed), 7))
		file := bytes.Clone(small[rng.IntN(len(small))])
		if seed%50 == 0 {
			file = bytes.Clone(files[rng.IntN(len(files))])
		}
		for range 1 + rng.IntN(4) {
			i := rng.IntN(len(file))
			switch rng.IntN(5) {
			case 0:
				file[i] = byte(rng.Uint32())
			case 1:
				file[i] ^= 1 << rng.IntN(8)
			case 2: // a part is gone
				file = append(file[:i], file[min(len(file), i+1+rng.IntN(8)):]...)
			case 3: // a part comes twice
				part := bytes.Clone(file[i:min(len(file), i+1+rng.IntN(200))])
				file = append(file[:i], append(part, file[i:]...)...)
			default: // an opcode
				const opcodes = "(}]ueatqrhjKMJ.\x85\x86\x87\x88\x89\x8a\x8c\x94\x95"
				file[i] = opcodes[rng.IntN(len(opcodes))]
			}
			if len(file) == 0 {
				file = []byte{0x80}
			}
		}
		args := damagedArgs[rng.IntN(len(damagedArgs))]
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if show(t, file, args...) == exitOK {
			answered++
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 256_000_000+100*uint64(len(file)) {
			t.Errorf("seed %d, %q: allocates %d bytes for a file of %d", seed, args, n, len(file))
		}
	}
	t.Logf("%d of %d are answered", answered, n)
	if answered == 0 || answered == n {
		t.Errorf("%d of %d damaged snapshots are read", answered, n)
	}
}
