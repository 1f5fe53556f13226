package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate"
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

// An export of batch 8 is answered for 32 as one of 32 is, where only its inputs and constant shapes have the batch; what
// could be the batch or something else is refused.
func TestFixedBatchIsRescaled(t *testing.T) {
	ints := func(name string, elements ...int64) Tensor {
		return Tensor{Name: name, DType: onnxload.Int64, Dims: []int64{int64(len(elements))}, Typed: elements}
	}
	floats := func(name string, dims ...int64) Tensor {
		return Tensor{Name: name, DType: onnxload.Float32, Dims: dims, Typed: make([]float32, dims[0]*dims[1])}
	}
	for name, c := range map[string]struct {
		inits   func(batch int64) []Tensor
		nodes   []Node
		refused string
	}{
		"kept": {func(n int64) []Tensor { return []Tensor{ints("to", n, 2, 2)} }, []Node{Op("Reshape", "x to", "y")}, ""},
		"rows of each sample": {func(n int64) []Tensor { return []Tensor{ints("rows", 2*n, 2), ints("to", n, -1)} },
			[]Node{Op("Reshape", "x rows", "a"), Op("Relu", "a", "b"), Op("Reshape", "b to", "y")}, ""},
		"expanded, and joined to the batch": {
			func(n int64) []Tensor { return []Tensor{ints("to", n, 3), floats("token", 1, 3)} },
			[]Node{Op("Expand", "token to", "a"), Op("Concat", "a x", "y", A("axis", 1))}, ""},
		"expanded by itself": {
			func(n int64) []Tensor { return []Tensor{ints("to", n, 3), floats("token", 1, 3), ints("sum", 1)} },
			[]Node{Op("Expand", "token to", "a"), Op("ReduceSum", "a", "b", A("keepdims", 0)), Op("Add", "x b", "y")},
			"node 0 (Expand) makes 8 of a tensor without a batch"},
		"a constant of the batch": {func(n int64) []Tensor { return []Tensor{floats("mask", n, 4)} },
			[]Node{Op("Add", "x mask", "y")}, "32 and 8 do not broadcast"},
		"another dimension in front": {func(n int64) []Tensor { return []Tensor{ints("to", 4, 2, n/2)} },
			[]Node{Op("Transpose", "x", "a"), Op("Reshape", "a to", "y")}, "has not as many elements"},
	} {
		export := func(batch int64) string {
			path := filepath.Join(t.TempDir(), "export.onnx")
			write(t, path, string(Model{Opset: 17, Graph: Graph{In: []Value{Float("x", batch, 4)}, Out: []Value{{Name: "y"}},
				Inits: c.inits(batch), Nodes: c.nodes}}.Bytes()))
			return path
		}
		out, errs, code := try(t, export(8), "--mode", "infer", "--batch", "32", "-f", "json")
		if c.refused != "" {
			if code != exitInput || !strings.Contains(out+errs, c.refused) || !strings.Contains(out+errs, "dynamic_shapes") {
				t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
			}
			continue
		}
		want, _, _ := try(t, export(32), "--mode", "infer", "-f", "json")
		var got, as estimate.Report
		if code != exitOK || json.Unmarshal([]byte(out), &got) != nil || json.Unmarshal([]byte(want), &as) != nil {
			t.Errorf("%s: exit code %d: %s%s", name, code, out, errs)
			continue
		}
		if got.Peak.Allocated != as.Peak.Allocated || got.Activations != as.Activations ||
			!strings.Contains(out, "the export's batch is fixed at 8") {
			t.Errorf("%s: %d allocated, %+v, wanted %d, %+v: %v", name, got.Peak.Allocated, got.Activations, as.Peak.Allocated,
				as.Activations, got.Notes)
		}
	}
}
