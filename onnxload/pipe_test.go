//go:build unix

package onnxload_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// A54: the model's path may be a pipe, as with <(command).
func TestOpenPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	go func() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return
		}
		defer f.Close()
		f.Write(full().Bytes())
	}()
	m, err := onnxload.Open(path)
	must.OK(t, err)
	if got, want := dump(m), dump(read(t, full())); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A51: a pipe that a file names for its data is not waited for.
func TestExternalPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "w.bin"), 0o600); err != nil {
		t.Skip(err)
	}
	path := filepath.Join(dir, "m.onnx")
	b := tensorModel(Tensor{Name: "w", DType: onnxload.Int64, Dims: []int64{1},
		External: []string{"location", "w.bin"}}).Bytes()
	must.OK(t, os.WriteFile(path, b, 0o600))
	m, err := onnxload.Open(path)
	must.OK(t, err)
	defer m.Close()
	start := time.Now()
	if _, err := m.Ints(m.Values[1].Init); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
	if d := time.Since(start); d > time.Second {
		t.Errorf("took %v", d)
	}
}
