package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
)

// mutations is how many damaged snapshots are tried: MEMESTIMATE_MUTATIONS, or a few.
func mutations(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS")); err == nil {
		return n
	}
	if testing.Short() {
		return 200
	}
	return 3000
}

// pickles are the recorded snapshots, unpacked.
func pickles(t *testing.T) [][]byte {
	t.Helper()
	var out [][]byte
	paths, _ := filepath.Glob(pickle("*"))
	more, _ := filepath.Glob(filepath.Join(recorded, "odd", "*.pickle"))
	for _, p := range append(paths, more...) {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.HasPrefix(b, []byte("\x1f\x8b")) {
			z, err := gzip.NewReader(bytes.NewReader(b))
			if err != nil {
				t.Fatal(err)
			}
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

// show gives a file to "snapshot show": it must answer, or refuse it in one line.
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
	for _, file := range pickles(t) {
		for n := 0; n < len(file); n += max(len(file)/40, 1) { // the reader's own test takes every byte
			if code := show(t, file[:n], "show", "-"); code != exitInput {
				t.Fatalf("cut at %d of %d bytes it still reads", n, len(file))
			}
		}
	}
}

// Whatever happened to a snapshot, it is told or refused.
func TestSnapshotMutants(t *testing.T) {
	files := pickles(t)
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
		args := [][]string{{"show", "-"}, {"show", "-", "--format", "json"}, {"html", "-"}}[rng.IntN(3)]
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
