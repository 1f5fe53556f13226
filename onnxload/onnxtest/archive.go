package onnxtest

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"strings"
)

// Archive calls f for every .onnx file of a tar.gz archive, in its order.
func Archive(path string, f func(name string, b []byte)) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	z, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if !strings.HasSuffix(h.Name, ".onnx") {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		f(h.Name, b)
	}
}
