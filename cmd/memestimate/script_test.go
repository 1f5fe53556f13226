package main

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	if code, ours := secondReader(os.Args[1:]); ours { // of a cross-check within a test's process
		os.Exit(code)
	}
	testscript.Main(m, map[string]func(){"memestimate": main})
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
