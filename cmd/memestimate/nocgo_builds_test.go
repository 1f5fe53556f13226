//go:build builds

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWithoutCgo builds the program as the Go toolchain does where there is no C compiler: it says what
// live GPUs need, and the rest works.
func TestWithoutCgo(t *testing.T) {
	program := filepath.Join(t.TempDir(), "memestimate")
	build := exec.Command("go", "build", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, tt := range []struct {
		args string
		code int
		want string
	}{
		{"devices", exitDevice, "memestimate: live GPUs need Linux with cgo, and this build "},
		{"run --need 1GiB -- true", exitLauncher, "memestimate: live GPUs need Linux with cgo, and this build "},
		{"run --print --need 1GiB", exitDevice, "memestimate: live GPUs need Linux with cgo, and this build "},
		{"trace -- true", exitLauncher, "memestimate: live GPUs need Linux with cgo, and this build "},
		{"table conv_example", exitOK, "conv"},
	} {
		out, err := exec.Command(program, strings.Fields(tt.args)...).CombinedOutput()
		code := 0
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			code = exit.ExitCode()
		} else if err != nil {
			t.Fatal(err)
		}
		if code != tt.code || !strings.Contains(strings.ToLower(string(out)), strings.ToLower(tt.want)) {
			t.Errorf("memestimate %s: exit code %d, %s", tt.args, code, out)
		}
	}
}
