package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Types in types are told in full: what an optional of a sequence of tensors is, and the keys of a map.
func TestShapesOfNestedTypes(t *testing.T) {
	tensor := onnxtest.TensorOf(onnxload.Float32, 2, "n")
	list := onnxtest.Type{Kind: onnxload.SequenceType, Of: &tensor}
	table := onnxtest.Type{Kind: onnxload.MapType, Elem: onnxload.Int64, Of: &tensor}
	file := filepath.Join(t.TempDir(), "m.onnx")
	raw := onnxtest.Model{Graph: onnxtest.Graph{
		In: []onnxtest.Value{onnxtest.Typed("x", onnxtest.Type{Kind: onnxload.OptionalType, Of: &list}),
			onnxtest.Typed("m", table)},
		Nodes: []onnxtest.Node{onnxtest.Op("Identity", "x", "y")},
		Out:   []onnxtest.Value{{Name: "y"}},
	}}.Bytes()
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for format, want := range map[string][]string{
		"text": {"optional of sequence of float32  [2, n]", "map from int64 of float32"},
		"json": {`"y": {"kind":"optional","dtype":"float32","shape":[2,"n"],"type":"optional(sequence(float32[2, n]))"}`,
			`"type":"map(int64, float32[2, n])"`},
	} {
		out, _, code := try(t, "shapes", file, "--format", format)
		for _, w := range want {
			if code != exitOK || !strings.Contains(out, w) {
				t.Errorf("shapes --format %s: exit code %d\n%s\nwant %s", format, code, out, w)
			}
		}
	}
}
