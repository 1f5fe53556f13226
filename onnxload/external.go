package onnxload

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

var errLocation = errors.New("location leaves the model folder")

// checkLocation refuses names of external files that cannot lie in the model's
// folder, whatever the system. os.Root, which opens the file, is the real guard.
func checkLocation(loc string) error {
	switch {
	case loc == "" || loc == ".":
		return fmt.Errorf("external data without a location (%q)", loc)
	case strings.ContainsRune(loc, 0):
		return fmt.Errorf("external data: %q is not a file name", loc)
	case !filepath.IsLocal(strings.ReplaceAll(loc, `\`, "/")), len(loc) > 1 && loc[1] == ':':
		return fmt.Errorf("external data: %w: %q", errLocation, loc)
	}
	return nil
}

// keepBeside notes the file of a tensor whose values may decide shapes: a model is the same only where these are.
func (d *decoder) keepBeside(t *Tensor) {
	file := t.External.Location
	if size, err := t.Bytes(); err != nil || size > d.lim.Const || d.beside[file] {
		return
	}
	d.beside[file] = true
	d.m.Beside = append(d.m.Beside, file)
}

// external reads a tensor's payload of size bytes from a file of its own. This
// is the one place that opens files that files name.
func (m *Model) external(t *Tensor, size int64) ([]byte, error) {
	x := t.External
	if m.data == nil || m.data.dir == "" {
		return nil, fmt.Errorf("tensor %q: %w: it is in a file of its own, %q, and the model's folder is not known", t.Name,
			ErrNoData, x.Location)
	}
	if err := checkLocation(x.Location); err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	if x.Offset < 0 || x.Length != -1 && x.Length != size {
		return nil, fmt.Errorf("tensor %q: external data of %d bytes at %d, want %d bytes", t.Name, x.Length, x.Offset, size)
	}
	f, have, err := openInside(m.data.dir, x.Location)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("tensor %q: %w: external file %q is not there", t.Name, ErrNoData, x.Location)
	}
	if err != nil {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	defer f.Close()
	if x.Offset > have || size > have-x.Offset {
		return nil, fmt.Errorf("tensor %q: external file %q has %d bytes, want %d at %d", t.Name, x.Location, have, size,
			x.Offset)
	}
	b := make([]byte, size) // at most Limits.Const
	if _, err := f.ReadAt(b, x.Offset); err != nil && err != io.EOF {
		return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
	}
	return b, nil
}

// openInside opens a regular file inside a folder; links may not lead out of it.
func openInside(dir, loc string) (f *os.File, size int64, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, 0, err
	}
	defer root.Close()
	f, err = root.OpenFile(filepath.FromSlash(loc), os.O_RDONLY|openNonblock, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("external file %q is not a regular file", loc)
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, st.Size(), nil
}
