package main

import (
	"testing"

	"github.com/memestimate/memestimate/models"
	"github.com/memestimate/memestimate/onnxload/onnxgo"
)

// onnx-go reads every built-in graph as we do, node by node.
func TestCrossCheckBuiltins(t *testing.T) {
	nodes := 0
	for _, name := range models.Names() {
		info, err := models.Info(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, form := range info.Forms {
			m, err := resolve(name + ":" + form).open(&env{})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := onnxgo.Check(m)
			if err != nil {
				t.Errorf("%s:%s: %v", name, form, err)
			}
			nodes += rep.Nodes
		}
	}
	t.Logf("%d nodes agree", nodes)
}
