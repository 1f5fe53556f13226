package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// The default export of a model has the batch of its example in constants: another one is refused by saying so.
func TestFixedBatchIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fixed.onnx")
	write(t, path, string(Model{Opset: 17, Graph: Graph{In: []Value{Float("x", 8, 4)}, Out: []Value{{Name: "y"}},
		Inits: []Tensor{{Name: "to", DType: onnxload.Int64, Dims: []int64{3}, Typed: []int64{8, 2, 2}}},
		Nodes: []Node{Op("Reshape", "x to", "y")}}}.Bytes()))
	_, errs, code := try(t, path, "--mode", "infer", "--input", "x=32x4")
	if code != exitInput || !strings.Contains(errs, "the export's batch is fixed at 8") ||
		!strings.Contains(errs, "dynamic_shapes") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if _, errs, code := try(t, path, "--mode", "infer"); code != exitOK {
		t.Errorf("as it is: exit code %d: %s", code, errs)
	}
}
