package onnxload_test

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// corpus calls f for every model of the repository: the built-in ones in all
// their forms, and ONNX's own operator tests.
func corpus(t *testing.T, f func(name string, b []byte)) {
	t.Helper()
	n := 0
	for _, name := range models.Names() {
		info, err := models.Info(name)
		must.OK(t, err)
		for _, form := range info.Forms {
			b, err := models.Open(name + ":" + form)
			must.OK(t, err)
			f(name+":"+form, b)
			n++
		}
	}
	err := onnxtest.Archives(filepath.Join("..", "estimate", "shape", "testdata", "onnx-nodes*.tar.gz"),
		func(name string, b []byte) {
			f(name, b)
			n++
		})
	must.OK(t, err)
	if n < 1000 {
		t.Errorf("%d models, want over 1000", n)
	}
}

// Every model of the corpus loads, without a note, the same from a file and
// from a stream, as a sound graph whose small constants can be read.
func TestCorpus(t *testing.T) {
	constants := 0
	corpus(t, func(name string, b []byte) {
		m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if len(m.Notes) > 0 {
			t.Errorf("%s: notes %q", name, m.Notes)
		}
		if err := sound(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s, err := onnxload.ReadStream(bytes.NewReader(b), onnxload.Options{})
		if err != nil {
			t.Errorf("%s, as a stream: %v", name, err)
			return
		}
		if dump(m) != dump(s) {
			t.Errorf("%s: a stream gives another model", name)
		}
		for _, id := range m.Graph.Inits {
			x := m.Values[id].Init
			if n, err := x.Bytes(); err != nil || n > 64<<10 || x.External != nil {
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
				continue
			}
			var err error
			switch {
			case x.DType.IsFloat():
				_, err = m.Floats(x)
			case x.DType != onnxload.String: // text is never read
				_, err = m.Ints(x)
			}
			if err != nil && !errors.Is(err, onnxload.ErrNoData) {
				t.Errorf("%s: %v", name, err)
			}
			constants++
		}
	})
	if constants < 1000 {
		t.Errorf("%d constants read, want over 1000", constants)
	}
}
