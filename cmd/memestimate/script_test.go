package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/test/race"
)

// programEnv names the program that a test's own process, or one without a Go toolchain, starts instead of building it.
const programEnv = "MEMESTIMATE_TESTED_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		os.Exit(m.Run())
	}
	os.Exit(withProgram(m.Run))
}

// withProgram builds memestimate and runs tests that find it in PATH. It starts in half the time that the tests' own
// program would take in its place, which has the libraries of tests in it.
func withProgram(tests func() int) (code int) {
	dir, err := os.MkdirTemp("", "memestimate-program")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	linked, program := filepath.Join(dir, "linked"), filepath.Join(dir, "memestimate")
	build := exec.Command("go", "build", "-o", linked, fmt.Sprintf("-race=%t", race.Enabled), ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v: %s", err, out)
		return 1
	}
	// What the linker has just written lies in the page cache in large pieces, which count as resident as a whole where a
	// byte of them is touched: 14 MB more than of a file that was copied.
	data, err := os.ReadFile(linked)
	if err := cmp.Or(err, os.WriteFile(program, data, 0o755), os.Remove(linked), os.Setenv(programEnv, program),
		os.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return tests()
}

// TestScripts runs the program as a user does: testdata/script has a file for each
// command and each kind of failure.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"builtin":  builtin,
			"recorded": copyRecording,
		},
	})
}

// copyRecording copies a recording of package recording's tests: recorded NAME FILE [BYTES].
func copyRecording(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: recorded NAME FILE [BYTES]")
	}
	data, err := os.ReadFile(filepath.Join(repository, "recording", "testdata", args[0]+".mrec"))
	ts.Check(err)
	if len(args) > 2 {
		n, err := strconv.Atoi(args[2])
		ts.Check(err)
		data = data[:n]
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o666))
}

// repository is the top folder of this module, or "" in a script's process whose folder is gone. Scripts run in
// folders of their own.
var repository = func() string {
	dir, err := filepath.Abs("../..")
	if err != nil {
		return ""
	}
	return dir
}()

// exits runs the program and wants this exit code: exits 2 memestimate --nope.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM ARG...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	code := 0
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

// builtin writes a built-in model to a file: builtin conv_example model.onnx.
func builtin(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: builtin NAME FILE")
	}
	data, err := models.Open(args[0])
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o666))
}
