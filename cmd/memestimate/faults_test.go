//go:build linux

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/must"
)

// A fault is what strace does to a system call instead of, or before, carrying it out.
type fault struct {
	call string // of strace's names
	nth  int    // of a thread's calls of that name
	what string // error=EIO, signal=SIGTERM
}

// faults are all errors that a disk, a quota or another user may cause, and the signals that end a program, at the
// calls with which files are written. A signal comes once the call is done.
func faults() (all []fault) {
	kinds := []string{"error=ENOSPC", "error=EIO", "error=EDQUOT", "error=EROFS", "error=EACCES", "error=EINTR",
		"signal=SIGTERM", "signal=SIGINT", "signal=SIGHUP", "signal=SIGKILL"}
	for _, c := range []struct {
		name string
		most int
	}{{"write", 2}, {"fsync", 1}, {"renameat", 1}, {"fchmod", 1}, {"openat", 9}, {"close", 6}, {"newfstatat", 6}, {"fstat",
		3}, {"unlinkat", 2}, {"readlinkat", 2}} {
		for n := range c.most {
			for _, k := range kinds {
				all = append(all, fault{c.name, n + 1, k})
			}
		}
	}
	return all
}

// Whatever happens while a file is written, afterwards there is the old file or the new one, whole, and nothing beside
// it: with errors and signals at each system call, and at each size that a disk may have room for.
// MEMESTIMATE_MUTATIONS says how many faults; without it there are a few.
func TestWritingUnderFaults(t *testing.T) {
	program, dir := programForFaults(t), t.TempDir()
	pickle, err := filepath.Abs(filepath.Join(recorded, "odd", "oomfrag.pickle"))
	must.OK(t, err)
	writers := [][]string{
		{"conv_example", "--output", "FILE"}, {"conv_example", "--format", "html", "--output", "FILE"},
		{"conv_example", "--snapshot", "FILE"}, {"snapshot", "show", pickle, "--format", "json", "--output", "FILE"},
		{"table", "conv_example", "--format", "csv", "--output", "FILE"},
		{"check", "--config", filepath.Join(dir, "budget.yaml"), "--format", "markdown", "--output",
			"FILE"}, // a comment
	}
	honest, err := models.Open("conv_example")
	must.OK(t, err)
	write(t, filepath.Join(dir, "conv.onnx"), string(honest))
	write(t, filepath.Join(dir, "budget.yaml"), "models: [conv.onnx]\nlimits: {parameters: 1GiB}\n")
	most, err := strconv.Atoi(os.Getenv("MEMESTIMATE_MUTATIONS"))
	if err != nil {
		most = 100
	}
	wanted := make([][]byte, len(writers))
	for i, w := range writers {
		file := filepath.Join(dir, "wanted")
		if out, err := exec.Command(program, withFile(w, file)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if wanted[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	all := faults()
	var next, injected, kept, replaced atomic.Int64
	var wg sync.WaitGroup
	for worker := range 2 {
		wg.Go(func() {
			for k := int(next.Add(1)) - 1; k < 3*most && int(injected.Load()) < most; k = int(next.Add(1)) - 1 {
				i := (k + k/len(all)) % len(writers)
				f := all[k*7%len(all)] // 7 divides no length: all come, and all kinds soon, each time to another writer
				where := filepath.Join(dir, fmt.Sprint(worker))
				w := written{t: t, program: program, args: writers[i], want: wanted[i], dir: where, replaces: k/len(all)%2 == 0}
				var hit, old bool
				if k%4 == 3 {
					hit, old = w.withRoomFor(k * 131 % (len(wanted[i]) + 1))
				} else {
					hit, old = w.with(f)
				}
				if hit && old {
					kept.Add(1)
				} else if hit {
					replaced.Add(1)
				}
				if hit {
					injected.Add(1)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d faults: the old file %d times, the new one %d times", injected.Load(), kept.Load(), replaced.Load())
	if int(injected.Load()) < most || kept.Load() == 0 || replaced.Load() == 0 {
		t.Errorf("%d faults of %d came about", injected.Load(), most)
	}
}

// programForFaults returns the program that strace is to let fail.
func programForFaults(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("strace is not installed, and faults are not tested")
		}
		t.Skip("strace is not installed, and faults are not tested")
	}
	return os.Getenv(programEnv)
}

// written is a command that writes a file under a fault.
type written struct {
	t        *testing.T
	program  string
	args     []string
	want     []byte // what it writes without one
	dir      string // of the file alone
	replaces bool   // there is a file already
}

func withFile(args []string, file string) []string {
	out := append([]string(nil), args...)
	for i, a := range out {
		if a == "FILE" {
			out[i] = file
		}
	}
	return out
}

// with runs the command under a fault, and reports whether that came about and left what was there.
func (w written) with(f fault) (hit, old bool) {
	log := w.dir + ".strace"
	inject := fmt.Sprintf("%s:%s:when=%d", f.call, f.what, f.nth)
	old = w.run(f.what == "signal=SIGKILL" || f.call == "unlinkat", inject,
		"strace", "-f", "-qq", "-o", log, "-e", "trace="+f.call, "-e", "inject="+inject)
	said, err := os.ReadFile(log)
	if err != nil {
		w.t.Error(err)
	}
	return cameAbout(string(said), f), old
}

// withRoomFor runs the command where files may have so many bytes.
func (w written) withRoomFor(bytes int) (hit, old bool) {
	old = w.run(false, fmt.Sprint("room for ", bytes), "prlimit", fmt.Sprint("--fsize=", bytes))
	return bytes < len(w.want), old
}

// minute is when a comment was written, which thousands of faults outlast.
var minute = regexp.MustCompile(`\d+ \w+ \d{4} \d\d:\d\d UTC`)

// notMade is what check writes where it cannot read its budget file, or its model.
var notMade = regexp.MustCompile(`(?s)^### GPU memory: (1 model )?not checked\n.*#the-comment\)\n$`)

// run runs the command by another, and looks at what it left. What a killed process, or one that may not remove a file,
// leaves beside it is no fault of ours.
func (w written) run(mayLeave bool, what string, by ...string) (old bool) {
	if err := os.RemoveAll(w.dir); err != nil {
		w.t.Error(err)
	}
	if err := os.MkdirAll(w.dir, 0o777); err != nil {
		w.t.Error(err)
	}
	file := filepath.Join(w.dir, "out")
	before := []byte("what was there")
	if w.replaces {
		if err := os.WriteFile(file, before, 0o666); err != nil {
			w.t.Error(err)
		}
	}
	cmd := exec.Command(by[0], append(append(by[1:], w.program), withFile(w.args, file)...)...)
	said, err := cmd.CombinedOutput()
	after, readErr := os.ReadFile(file)
	old = w.replaces && bytes.Equal(after, before) || !w.replaces && os.IsNotExist(readErr)
	switch {
	case err != nil && notMade.Match(after): // that there was no check is an answer, and a whole one
		old = false
	case !old && !bytes.Equal(minute.ReplaceAll(after, nil), minute.ReplaceAll(w.want, nil)):
		w.t.Errorf("%q under %s: neither the old file nor the new one, %d bytes: %v, %.300s",
			w.args, what, len(after), err, said)
	case old && err == nil:
		w.t.Errorf("%q under %s: nothing is written, and that is no error: %.300s", w.args, what, said)
	}
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		w.t.Error(err)
	}
	for _, e := range entries {
		if e.Name() != "out" && !mayLeave {
			w.t.Errorf("%q under %s: leaves %s: %.300s", w.args, what, e.Name(), said)
		}
	}
	return old
}

// cameAbout reports whether strace says that the fault came about.
func cameAbout(traced string, f fault) bool {
	return strings.Contains(traced, "(INJECTED)") || strings.Contains(traced, "--- "+strings.TrimPrefix(f.what,
		"signal=")) || strings.Contains(traced, "killed by")
}
