package onnxload_test

import (
	"bytes"
	"fmt"
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

// traced gives a node the stack of Python calls that torch.onnx.export(dynamo=True) would write.
func traced(n Node, stack string) Node {
	n.Meta = append(n.Meta, onnxload.Entry{Key: "pkg.torch.onnx.stack_trace", Value: stack},
		onnxload.Entry{Key: "pkg.torch.onnx.fx_node", Value: "%x : call_function"}, onnxload.Entry{Key: "namespace",
			Value: ": M"})
	return n
}

// stackOf prints a node's stack, the outermost first.
func stackOf(m *onnxload.Model, n *onnxload.Node) string {
	var lines []string
	for at := n.Stack; at > 0; at = m.Stacks[at-1].Up {
		f := m.Stacks[at-1]
		lines = append([]string{fmt.Sprintf("%s:%d %s: %s", f.File, f.Line, f.Func, f.Source)}, lines...)
	}
	return strings.Join(lines, " > ")
}

func TestStacks(t *testing.T) {
	const outer, a, b = "File \"m.py\", line 3, in forward\n    x = self.b(x)",
		"\n  File \"b.py\", line 7, in forward\n    x = x + 1", "\n  File \"b.py\", line 8, in forward"
	long := "File \"m.py\", line 3, in forward\n    " + strings.Repeat("x", 3000)
	deep := outer + strings.Repeat(a, 200)
	m := read(t, Model{Opset: 18, Graph: Graph{
		In: []Value{{Name: "x"}}, Out: []Value{{Name: "h"}},
		Nodes: []Node{
			traced(Op("Neg", "x", "a"), outer+a), traced(Op("Neg", "a", "b"), outer+a), traced(Op("Neg", "b", "c"),
				outer+b), traced(Op("Neg", "c", "d"), "no stack"),
			traced(Op("Neg", "d", "e"), long), traced(Op("Neg", "e", "f"), deep), traced(Op("Neg", "f", "g"),
				"File \"m.py\", line -1, in forward\n"), Op("Neg", "g", "h"),
		},
	}})
	want := []string{"m.py:3 forward: x = self.b(x) > b.py:7 forward: x = x + 1", "",
		"m.py:3 forward: x = self.b(x) > b.py:8 forward: ", "", "", "", "", ""}
	want[1] = want[0]
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		if got := stackOf(m, n); got != want[i] {
			t.Errorf("node %d: stack %q, want %q", i, got, want[i])
		}
		if meta := n.Meta(); len(meta) > 1 || len(meta) == 1 && meta[0].Key != "namespace" {
			t.Errorf("node %d: metadata %v, want its namespace alone", i, meta)
		}
	}
	if n := &m.Graph.Nodes[0]; n.Stack != m.Graph.Nodes[1].Stack {
		t.Error("two nodes of a line have different stacks")
	}
	for i, f := range m.Stacks {
		if int(f.Up) > i {
			t.Errorf("frame %d is called by %d, which is not before it", i+1, f.Up)
		}
	}
}

// The nodes of a function's body have the stack of the call, where they have none.
func TestStacksOfFunctions(t *testing.T) {
	f := Function{Domain: "f", Name: "F", In: []string{"a"}, Out: []string{"r"}, Nodes: []Node{
		Op("Neg", "a", "m"), traced(Op("Neg", "m", "r"), "File \"own.py\", line 2, in forward\n    y"),
	}, Opsets: []Import{Domain("", 18)}}
	m := read(t, Model{Opset: 18, Opsets: []Import{Domain("f", 1)}, Functions: []Function{f}, Graph: Graph{
		In: []Value{{Name: "x"}}, Out: []Value{{Name: "y"}},
		Nodes: []Node{traced(Op("F", "x", "y").Of("f"), "File \"call.py\", line 1, in forward\n    z")},
	}})
	for i, want := range []string{"call.py:1 forward: z", "own.py:2 forward: y"} {
		if got := stackOf(m, &m.Graph.Nodes[i]); got != want {
			t.Errorf("node %d: stack %q, want %q", i, got, want)
		}
	}
}
