//go:build linux && cgo

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/memestimate/memestimate/devices/fakenvml"
	"github.com/memestimate/memestimate/test/must"
)

// buildDriver builds a fake driver into the new directory dir, which every user may enter.
func buildDriver(t *testing.T, dir string, defines ...string) {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil && os.Getenv("CC") == "" {
		t.Skip("the fake driver needs a C compiler")
	}
	must.OK(t, os.Mkdir(dir, 0o755))
	_, err := fakenvml.Build(dir, defines...)
	must.OK(t, err)
	must.OK(t, os.Chmod(dir, 0o755)) // whatever the umask
}

// TestGPUScripts runs the program against fake drivers: $new is one of today, $old one of before
// R510, $ancient one without any versioned function.
func TestGPUScripts(t *testing.T) {
	dir := t.TempDir()
	dirs := map[string]string{"new": filepath.Join(dir, "new"), "old": filepath.Join(dir, "old"),
		"ancient": filepath.Join(dir, "ancient")}
	buildDriver(t, dirs["new"])
	buildDriver(t, dirs["old"], "OLD")
	buildDriver(t, dirs["ancient"], "ANCIENT")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/gpu",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			for name, dir := range dirs {
				env.Setenv(name, dir)
			}
			env.Setenv("LD_LIBRARY_PATH", dirs["new"])
			env.Setenv("FAKE_NVML", filepath.Join(env.WorkDir, "machine"))
			env.Setenv("MEMESTIMATE_STATE_DIR", filepath.Join(env.WorkDir, "state"))
			env.Setenv("LANG", "C.UTF-8")
			return nil
		},
		Condition: func(c string) (bool, error) {
			if c == "root" {
				return os.Getuid() == 0, nil
			}
			return false, fmt.Errorf("condition %q is unknown", c)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":   exits,
			"machine": machine,
			"empty":   empty,
			"ticket":  ticket,
			"valid":   valid,
		},
	})
}

// machine puts a description in place of the fake machine's, at once: machine FILE.
func machine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: machine FILE")
	}
	target := ts.Getenv("FAKE_NVML")
	ts.Check(os.WriteFile(target+".new", []byte(ts.ReadFile(args[0])), 0o666))
	ts.Check(os.Rename(target+".new", target))
}

// empty wants a state directory without reservations and waiters.
func empty(ts *testscript.TestScript, neg bool, args []string) {
	entries, err := os.ReadDir(ts.Getenv("MEMESTIMATE_STATE_DIR"))
	ts.Check(err)
	for _, e := range entries {
		if e.Name() != "lock" {
			ts.Fatalf("%s is left behind", e.Name())
		}
	}
}

// ticket waits until so many launchers wait: ticket N. With ticket hold N it waits for
// reservations.
func ticket(ts *testscript.TestScript, neg bool, args []string) {
	kind := "wait"
	if len(args) == 2 {
		kind, args = args[0], args[1:]
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	ok := waitFor(func() bool {
		names, err := filepath.Glob(filepath.Join(ts.Getenv("MEMESTIMATE_STATE_DIR"), kind+"-*"))
		ts.Check(err)
		got = len(slices.DeleteFunc(names, func(name string) bool { return !locked(name) }))
		return got == want
	})
	if !ok {
		ts.Fatalf("%d of %s there, want %d", got, kind, want)
	}
}

// locked tells whether somebody has a lock on the file's first byte.
func locked(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	l := unix.Flock_t{Type: unix.F_RDLCK, Len: 1}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l) == nil && l.Type != unix.F_UNLCK
}

// eightGPUs describes 8 GPUs of 80 GiB.
func eightGPUs() string {
	s := "driver 580.95.05\n"
	for i := range 8 {
		s += fmt.Sprintf("gpu uuid=GPU-%d bus=00000000:%02X:00.0 total=85899345920 reserved=679477248 used=0 mig=none "+
			"mode=0 name=NVIDIA A100-SXM4-80GB\n", i, i)
	}
	return s
}
