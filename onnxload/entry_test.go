package onnxload_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	. "github.com/memestimate/memestimate/onnxload/onnxtest"
)

// Of the metadata of torch.export the names of parameters are kept, of the calls that nodes were translated from
// nothing. A text that is too long refuses no file: it is as if there were none.
func TestEntries(t *testing.T) {
	const signature, call = "pkg.torch.export.ExportedProgram.graph_signature", "pkg.torch.onnx.fx_node"
	const inputs = "\n# inputs\np_a: PARAMETER target='a.weight'\nb: BUFFER target='b'\np_c: PARAMETER target='c"
	for name, c := range map[string]struct {
		signature, call string
		trained         []string
	}{
		"a signature": {inputs, "%relu : call_function", []string{"a.weight"}},
		"none":        {"", "%relu : call_function", nil},
		"too long":    {inputs + strings.Repeat("\nd: BUFFER target='d'", 500), strings.Repeat(" ", 9000), nil},
	} {
		n := Op("Neg", "x", "y")
		n.Meta = []onnxload.Entry{{Key: call, Value: c.call}}
		b := Model{Graph: Graph{In: []Value{Float("x", 1)}, Out: []Value{{Name: "y"}}, Nodes: []Node{n},
			Meta: []onnxload.Entry{{Key: "other", Value: inputs}, {Key: signature, Value: c.signature}}}}.Bytes()
		m, err := onnxload.Read(bytes.NewReader(b), int64(len(b)), onnxload.Options{Limits: onnxload.Limits{String: 8192}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := slices.Collect(maps.Keys(m.Trained)); !slices.Equal(got, c.trained) {
			t.Errorf("%s: parameters %q, want %q", name, got, c.trained)
		}
		if got := m.Graph.Nodes[0].MetaValue(call); got != "" {
			t.Errorf("%s: call %q is kept", name, got)
		}
	}
}
