package models

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/memestimate/memestimate/test/must"
)

func TestEveryModelOpensInEveryForm(t *testing.T) {
	names := Names()
	if !slices.IsSorted(names) || len(names) != len(table) {
		t.Errorf("names are not sorted, or not all: %q", names)
	}
	opened := 0
	for _, name := range names {
		m, err := Info(name)
		must.OK(t, err)
		if len(m.Forms) == 0 || !strings.HasSuffix(m.Forms[0], "-train") {
			t.Errorf("%s: forms %q: the first one has to be made for training", name, m.Forms)
		}
		if m.Source == "" || m.Licence == "" || m.Input == "" {
			t.Errorf("%s: %+v lacks its provenance", name, m)
		}
		for _, form := range m.Forms {
			data, err := Open(name + ":" + form)
			if err != nil {
				t.Error(err)
			}
			if len(data) < 1000 || data[0] != 0x08 { // ir_version is the first field
				t.Errorf("%s:%s: %d bytes that do not begin as ONNX does", name, form, len(data))
			}
			opened++
		}
		if m.SizedApart() {
			if data, err := OpenSized(name); err != nil || len(data) < 1000 || data[0] != 0x08 {
				t.Errorf("%s at other sizes: %d bytes, %v", name, len(data), err)
			}
			opened++
		}
	}
	files, err := fs.Glob(graphs, "*/*")
	if err != nil || len(files) != opened {
		t.Errorf("%d files are embedded, %d are reachable: %v", len(files), opened, err)
	}
}

// The page that runs in a browser has the default form of each model, and no other.
func TestGraphsOfThePage(t *testing.T) {
	source := must.Read(t, "graphs_js.go")
	var patterns []string
	for line := range strings.Lines(string(source)) {
		if list, ok := strings.CutPrefix(line, "//go:embed "); ok {
			patterns = append(patterns, strings.Fields(list)...)
		}
	}
	for _, name := range Names() {
		m, err := Info(name)
		must.OK(t, err)
		for i, form := range m.Forms {
			there := slices.ContainsFunc(patterns, func(pattern string) bool {
				matches, err := path.Match(pattern, file(name, form))
				return err == nil && matches
			})
			if there != (i == 0) {
				t.Errorf("%s:%s is in the page: %v", name, form, there)
			}
		}
	}
}

// The embedded graphs are most of the program's size; this keeps them small.
func TestEmbeddedSize(t *testing.T) {
	var total int64
	files, err := fs.Glob(graphs, "*/*")
	must.OK(t, err)
	for _, f := range files {
		info, err := fs.Stat(graphs, f)
		must.OK(t, err)
		total += info.Size()
	}
	if total > 2<<20 {
		t.Errorf("the graphs are %d bytes, want at most 2 MiB", total)
	}
}

func TestUnknownNames(t *testing.T) {
	if _, err := Open("resnet5000"); !errors.Is(err, ErrUnknown) {
		t.Errorf("unknown name: %v", err)
	}
	if _, err := Open("../models"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a path: %v", err)
	}
	if _, err := Open("gpt2:ts-train"); err == nil || errors.Is(err, ErrUnknown) ||
		!strings.Contains(err.Error(), "dynamo-train") {
		t.Errorf("unknown form: %v", err)
	}
	if _, err := Open("gpt2:"); err == nil {
		t.Error("an empty form was taken for the default one")
	}
}

// Every graph says how large it is unpacked: then it is unpacked into memory of that size, which for Qwen2 takes an
// eighth of the time that finding it out does. And none says of its nodes what is not read.
func TestGraphsAsTheyArePacked(t *testing.T) {
	paths, err := fs.Glob(graphs, "*/*.onnx.zst")
	if err != nil || len(paths) < len(table) {
		t.Fatalf("%d graphs, %v", len(paths), err)
	}
	for _, p := range paths {
		data, err := graphs.ReadFile(p)
		must.OK(t, err)
		var h zstd.Header
		if err := h.Decode(data); err != nil || !h.HasFCS {
			t.Errorf("%s does not say its size (%v): zstd --stream-size=BYTES", p, err)
		}
		graph, err := read(p, p)
		if err != nil {
			t.Error(err)
		}
		for _, key := range []string{"fx_node", "name_scopes", "class_hierarchy"} { // what nobody reads: half of a graph
			if bytes.Contains(graph, []byte("pkg.torch.onnx."+key)) {
				t.Errorf("%s has %s: scripts/strip_weights.py takes it out", p, key)
			}
		}
	}
}
