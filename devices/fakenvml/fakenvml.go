// Package fakenvml builds a libnvidia-ml.so.1 that needs no GPU: a machine of
// the caller's invention, for tests of this program and of others that talk to NVML. The head of src/fakenvml.c
// says how to describe the machine.
package fakenvml

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed src/fakenvml.c
var source []byte

// Library is the file name under which programs load NVML.
const Library = "libnvidia-ml.so.1"

// Build compiles the library into dir with gcc, or $CC, and returns its path. Defines are those of
// src/fakenvml.c: "OLD", "ANCIENT".
func Build(dir string, defines ...string) (string, error) {
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "gcc"
	}
	c, lib := filepath.Join(dir, "fakenvml.c"), filepath.Join(dir, Library)
	if err := os.WriteFile(c, source, 0o666); err != nil {
		return "", err
	}
	args := []string{"-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wl,-soname," + Library, "-o", lib, c}
	for _, d := range defines {
		args = append(args, "-D"+d)
	}
	if out, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cc, err, out)
	}
	return lib, nil
}
