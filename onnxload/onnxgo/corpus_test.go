package onnxgo_test

import (
	"path/filepath"
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The two readers agree on every model of the repository: the built-in ones in
// all their forms, and ONNX's own operator tests.
func TestCheckCorpus(t *testing.T) {
	var files, graphs, nodes int
	check := func(name string, b []byte) {
		m := read(t, b)
		rep, err := onnxgo.Check(m)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if g, n := count(m.Graph); !rep.File || rep.Graphs != g || rep.Nodes != n {
			t.Errorf("%s: %+v, want %d nodes in %d graphs", name, rep, n, g)
		}
		files, graphs, nodes = files+1, graphs+rep.Graphs, nodes+rep.Nodes
	}
	for _, name := range models.Names() {
		info, err := models.Info(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range info.Forms {
			b, err := models.Open(name + ":" + form)
			if err != nil {
				t.Fatal(err)
			}
			check(name+":"+form, b)
		}
	}
	err := onnxtest.Archives(filepath.Join("..", "..", "estimate", "shape", "testdata", "onnx-nodes*.tar.gz"), check)
	if err != nil {
		t.Fatal(err)
	}
	if files < 1000 || nodes < 50_000 {
		t.Errorf("%d nodes in %d files compared, want more", nodes, files)
	}
	t.Logf("%d files, %d graphs, %d nodes agree", files, graphs, nodes)
}
