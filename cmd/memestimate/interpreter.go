//go:build !js

package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/memestimate/memestimate/python"
)

// interpreter returns the Python that runs what is recorded: the one asked for, else that of the active environment,
// else the first on the path.
func interpreter(e *env, asked string) (string, error) {
	const hint = "--python PATH names one that has PyTorch"
	if asked != "" {
		if st, err := os.Stat(asked); err == nil && st.IsDir() { // an environment
			return inEnvironment("--python", asked)
		}
		path, err := exec.LookPath(asked)
		if err != nil {
			return "", usagef("--python %s: %w", quoteArg(asked), cause(err))
		}
		return path, nil
	}
	for _, name := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if folder := e.getenv(name); folder != "" {
			return inEnvironment(name, folder)
		}
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fail(exitInput, "no Python on the path, and no environment is active").withHint(hint)
}

// inEnvironment returns the interpreter of a virtual environment or of one of conda.
func inEnvironment(name, folder string) (string, error) {
	places := []string{"bin/python3", "bin/python"}
	if runtime.GOOS == "windows" {
		places = []string{`Scripts\python.exe`, "python.exe"}
	}
	for _, place := range places {
		path := filepath.Join(folder, place)
		if st, err := os.Stat(path); err == nil && runnable(path, st) {
			return path, nil
		}
	}
	return "", fail(exitInput, "%s=%s: no Python there", name, quoteArg(folder)).
		withHint("--python PATH names one that has PyTorch")
}

// cacheFolder returns where answers and the Python package are kept, "" where this user has no such place. It is made
// where it is missing. One that somebody else may write into is none: Python code is run from there, and a user may have
// the home of another, as under sudo.
func cacheFolder(e *env) string {
	folder := ""
	if dir := e.getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		folder = filepath.Join(dir, "memestimate")
	} else if home := cmp.Or(e.getenv("HOME"), e.getenv("USERPROFILE")); filepath.IsAbs(home) {
		folder = filepath.Join(home, ".cache", "memestimate")
	}
	if folder == "" || os.MkdirAll(folder, 0o700) != nil || !own(folder) {
		return ""
	}
	return folder
}

// digest names what is in some parts.
func digest(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(h, "%d:%s", len(p), p)
	}
	return hex.EncodeToString(h.Sum(nil))[:24]
}

// saidByPython is the exit code of the Python package for what is wrong beside the script, of which it told: see
// __main__.py.
const saidByPython = 120

// A pythonPackage is the Python package as files, for PYTHONPATH.
type pythonPackage struct {
	folder string
	digest string
	delete func()
}

// unpackPython writes the Python package of this program where it is not there yet: into the cache, or where nothing
// can be written there into a temporary folder.
func unpackPython(e *env) (*pythonPackage, error) {
	source, err := fs.Sub(python.Source, "src")
	if err != nil {
		return nil, err
	}
	var parts []string
	sizes := map[string]int64{}
	err = fs.WalkDir(source, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(source, path)
		sizes[path] = int64(len(data))
		parts = append(parts, path, string(data))
		return err
	})
	if err != nil {
		return nil, err
	}
	p := &pythonPackage{digest: digest(parts...), delete: func() {}}
	if cache := cacheFolder(e); cache != "" {
		p.folder = filepath.Join(cache, "python", p.digest)
		if whole(p.folder, sizes) {
			return p, nil
		}
		os.RemoveAll(p.folder) // a cleaner took some of it
		if err := os.MkdirAll(filepath.Dir(p.folder), 0o700); err == nil && writeFolder(p.folder, source) == nil {
			return p, nil
		}
	}
	p.folder, err = os.MkdirTemp("", "memestimate-python-")
	if err != nil {
		return nil, fail(exitOutput, "a temporary folder: %w", cause(err))
	}
	p.delete = func() { os.RemoveAll(p.folder) }
	if err := os.CopyFS(p.folder, source); err != nil {
		p.delete()
		return nil, fail(exitOutput, "a temporary folder: %w", cause(err))
	}
	return p, nil
}

// writeFolder makes a folder with files, whole or not at all. That another process has made it meanwhile is as well.
func writeFolder(folder string, source fs.FS) error {
	made, err := os.MkdirTemp(filepath.Dir(folder), "making-") // which others may not enter
	if err != nil {
		return err
	}
	defer os.RemoveAll(made)
	if err := os.CopyFS(made, source); err != nil {
		return err
	}
	if err := os.Rename(made, folder); err != nil {
		if _, there := os.Stat(folder); there != nil {
			return err
		}
	}
	return nil
}

// whole reports whether all files of some sizes are in a folder.
func whole(folder string, sizes map[string]int64) bool {
	for name, size := range sizes {
		st, err := os.Stat(filepath.Join(folder, filepath.FromSlash(name)))
		if err != nil || st.Size() != size {
			return false
		}
	}
	return true
}

// run runs the Python package's command line with an interpreter, in a folder or where this process is. What the
// program prints goes to stderr: stdout has the result alone. A signal that would end this process ends Python first.
func (p *pythonPackage) run(ctx context.Context, e *env, interpreter, folder string, stdout io.Writer,
	args ...string) error {
	ctx, stop := signal.NotifyContext(ctx, endingSignals...)
	defer stop()
	c := exec.CommandContext(ctx, interpreter, append([]string{"-m", "memestimate"}, args...)...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay, c.Dir = 5*time.Second, folder
	c.Stdin, c.Stdout, c.Stderr = e.stdin, stdout, e.stderr
	path := p.folder
	if others := e.getenv("PYTHONPATH"); others != "" {
		path += string(os.PathListSeparator) + others
	}
	c.Env = append(os.Environ(), "PYTHONPATH="+path)
	if self, err := os.Executable(); err == nil {
		c.Env = append(c.Env, "MEMESTIMATE="+self)
	}
	err := c.Run()
	if ctx.Err() != nil {
		return &exitError{code: 130}
	}
	if x, ok := errors.AsType[*exec.ExitError](err); ok && x.ExitCode() > 0 {
		if x.ExitCode() == saidByPython {
			return &exitError{code: exitInput}
		}
		return &scriptError{x.ExitCode()}
	}
	if err != nil {
		return fail(exitInput, "%s: %w", quoteArg(interpreter), cause(err))
	}
	return nil
}
