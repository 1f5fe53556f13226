package onnxtest

import (
	"archive/tar"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Archives calls f for every .onnx file of the tar.gz archives whose path matches the pattern, in their
// order. It is an error when none does.
func Archives(pattern string, f func(name string, b []byte)) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return fmt.Errorf("no file matches %q", pattern)
	}
	for _, path := range paths {
		if err := archive(path, f); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

func archive(path string, f func(name string, b []byte)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	return Archive(file, f)
}

// Archive calls f for every .onnx file of a tar.gz archive.
func Archive(r io.Reader, f func(name string, b []byte)) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasSuffix(h.Name, ".onnx") {
			continue
		}
		b, err := io.ReadAll(files)
		if err != nil {
			return err
		}
		f(h.Name, b)
	}
}
