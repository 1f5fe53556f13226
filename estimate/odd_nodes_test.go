package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Nodes that are right and rarely written run under every setting.
func TestOddNodes(t *testing.T) {
	f32 := onnxtest.Float
	split := onnxtest.Op("Split", "x", "")
	split.Out = []string{"", "y", ""}
	for _, test := range []struct {
		name  string
		opset int64
		in    []onnxtest.Value
		node  onnxtest.Node
	}{
		{"a Split that leaves parts out", 11, []onnxtest.Value{f32("x", 6, 4)}, split},
		{"an Einsum whose letter stretches in the second operand", 17, []onnxtest.Value{f32("x", 2, 3, 4), f32("z", 2, 1, 5)},
			onnxtest.Op("Einsum", "x z", "y", onnxtest.A("equation", "bij,bik->bjk"))},
		{"an Einsum whose letters stretch and stay", 17, []onnxtest.Value{f32("x", 1, 3, 4), f32("z", 2, 3, 1)},
			onnxtest.Op("Einsum", "x z", "y", onnxtest.A("equation", "bij,bij->bij"))},
		{"an Einsum with an empty letter", 17, []onnxtest.Value{f32("x", 1, 3), f32("z", 0, 3)},
			onnxtest.Op("Einsum", "x z", "y", onnxtest.A("equation", "bi,bi->b"))},
		{"a slope for every channel before opset 7", 6, []onnxtest.Value{f32("x", 2, 3, 4, 5), f32("z", 3)},
			onnxtest.Op("PRelu", "x z", "y")},
		{"a factor too many", 17, []onnxtest.Value{f32("x", 2, 3), f32("z", 3)}, onnxtest.Op("Mul", "x z z", "y")},
		{"one slope", 6, []onnxtest.Value{f32("x", 2, 3), f32("z", 1)}, onnxtest.Op("PRelu", "x z", "y")},
	} {
		raw := onnxtest.Model{Opset: test.opset, Graph: onnxtest.Graph{In: test.in, Nodes: []onnxtest.Node{test.node},
			Out: []onnxtest.Value{{Name: "y"}}}}.Bytes()
		// All inferences run, once with the inputs for parameters, and all training that has a fitting loss.
		if runs := simulateAll(t, test.name, raw); runs < 10 {
			t.Errorf("%s: %d runs, want 10 or more", test.name, runs)
		}
	}
}
