package module_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/memestimate/memestimate/estimate/recover"
	"github.com/memestimate/memestimate/estimate/recover/module"
	"github.com/memestimate/memestimate/onnxload"
)

// A call is a node and the text that it has of its call in torch.export's graph.
type call struct {
	op, text, line string
	in, out        string // names, "a b"
	train          bool
	aten           string // what its namespace ends in
}

// graphOf makes a model of one input, x, and these nodes.
func graphOf(calls ...call) *onnxload.Model {
	m := &onnxload.Model{Values: make([]onnxload.Value, 1), Graph: &onnxload.Graph{}, Opsets: map[string]int64{"": 18}}
	id := func(name string) onnxload.ValueID {
		for i := range m.Values {
			if i > 0 && m.Values[i].Name == name {
				return onnxload.ValueID(i)
			}
		}
		m.Values = append(m.Values, onnxload.Value{Name: name})
		return onnxload.ValueID(len(m.Values) - 1)
	}
	m.Graph.Inputs = []onnxload.ValueID{id("x")}
	for i, c := range calls {
		n := onnxload.Node{Op: c.op, Version: 18}
		for _, v := range strings.Fields(c.in) {
			n.In = append(n.In, id(v))
		}
		n.Out = []onnxload.ValueID{id(c.out)}
		if c.text != "" {
			n.More = &onnxload.More{Meta: []onnxload.Entry{{Key: onnxload.CallKey, Value: c.text}}}
		}
		if c.line != "" {
			m.Stacks = append(m.Stacks, onnxload.Frame{Line: int32(i + 1), File: "net.py", Func: "forward", Source: c.line})
			n.Stack = int32(len(m.Stacks))
		}
		if c.aten != "" {
			n.More = &onnxload.More{Meta: []onnxload.Entry{{Key: "namespace", Value: ": Net/norm: BatchNorm2d/" + c.aten}}}
		}
		if c.train {
			n.Attrs = []onnxload.Attr{{Name: "training_mode", Int: 1}}
		}
		m.Graph.Nodes = append(m.Graph.Nodes, n)
	}
	return m
}

// listed is a model's nodes as "Op in -> out".
func listed(m *onnxload.Model) (all []string) {
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		var in []string
		for _, v := range n.In {
			in = append(in, m.NameOf(v))
		}
		all = append(all, n.Op+" "+strings.Join(in, " ")+" -> "+m.NameOf(n.Output(0)))
	}
	return all
}

func TestRestore(t *testing.T) {
	add := func(args string) string {
		return "%add : [num_users=1] = call_function[target=torch.ops.aten.add.Tensor](args = (" + args + "), kwargs = {})"
	}
	view := "%view : [num_users=1] = call_function[target=torch.ops.aten.view.default](args = (%clone, [2, 3]))"
	attention := "%attention : [num_users=1] = call_function[target=torch.ops.aten.scaled_dot_product_attention.default]" +
		"(args = (%clone_9, %clone_10, %clone_11, None, 0.0, %scale), kwargs = {})"
	relu := call{op: "Relu", in: "x", out: "relu"}
	turned := call{op: "Transpose", in: "x", out: "permute"}
	for name, c := range map[string]struct {
		calls []call
		want  []string // nil: the model as it was
	}{
		"dropout": {[]call{relu, {op: "Add", text: add("%x, %clone"), in: "x relu", out: "add"}},
			[]string{"Relu x -> relu", "Dropout relu -> clone", "Add x clone -> add"}},
		"of two, each in its place": {[]call{relu, {op: "Tanh", in: "x", out: "tanh"},
			{op: "Add", text: add("%clone_1, %clone"), in: "tanh relu", out: "add"}},
			[]string{"Relu x -> relu", "Dropout relu -> clone", "Tanh x -> tanh", "Dropout tanh -> clone_1",
				"Add clone_1 clone -> add"}},
		"in an export for training": {[]call{relu, {op: "BatchNormalization", in: "relu", out: "norm", train: true},
			{op: "Add", text: add("%x, %clone"), in: "x norm", out: "add"}},
			[]string{"Relu x -> relu", "BatchNormalization relu -> norm", "Identity norm -> clone", "Add x clone -> add"}},
		"in one whose norms say so by their operator alone": {[]call{relu, {op: "BatchNormalization", in: "relu", out: "norm",
			aten: "norm: aten._native_batch_norm_legit_functional.default"},
			{op: "Add", text: add("%x, %clone"), in: "x norm", out: "add"}},
			[]string{"Relu x -> relu", "BatchNormalization relu -> norm", "Identity norm -> clone", "Add x clone -> add"}},
		"the program's own": {[]call{relu, {op: "Add", text: add("%x, %clone"), in: "x relu", out: "add",
			line: "return x + y.clone()"}},
			[]string{"Relu x -> relu", "Identity relu -> clone", "Add x clone -> add"}},
		"of a turned tensor": {[]call{turned, {op: "Add", text: add("%x, %clone"), in: "x permute", out: "add"}},
			[]string{"Transpose x -> permute", "Dropout permute -> clone", "Add x clone -> add"}},
		"made contiguous": {[]call{turned, {op: "Add", text: add("%x, %clone"), in: "x permute", out: "add"},
			{op: "Relu", in: "add", out: "y"}},
			[]string{"Transpose x -> permute", "Identity permute -> clone", "Add x clone -> add", "Relu add -> y"}},
		"for reshape": {[]call{turned, {op: "Reshape", text: view, in: "permute", out: "view"}},
			[]string{"Transpose x -> permute", "Identity permute -> clone", "Reshape clone -> view"}},
		"a product and a sum of one call": {[]call{relu,
			{op: "MatMul", text: add("%clone, %w, %b"), in: "relu w", out: "val_1"},
			{op: "Add", text: add("%clone, %w, %b"), in: "val_1 b", out: "add"}},
			[]string{"Relu x -> relu", "Dropout relu -> clone", "MatMul clone w -> val_1", "Add val_1 b -> add"}},
		"of attention that is written out": {[]call{turned, {op: "Transpose", in: "x", out: "permute_1"},
			{op: "Transpose", in: "x", out: "permute_2"},
			{op: "Mul", text: attention, in: "permute scale", out: "val_1"},
			{op: "Mul", text: attention, in: "permute_1 scale", out: "val_2"},
			{op: "MatMul", text: attention, in: "val_1 val_2", out: "val_3"},
			{op: "MatMul", text: attention, in: "val_3 permute_2", out: "y"}},
			[]string{"Transpose x -> permute", "Identity permute -> clone_9", "Transpose x -> permute_1",
				"Identity permute_1 -> clone_10", "Transpose x -> permute_2", "Identity permute_2 -> clone_11",
				"Mul clone_9 scale -> val_1", "Mul clone_10 scale -> val_2", "MatMul val_1 val_2 -> val_3",
				"MatMul val_3 clone_11 -> y"}},
		"of attention, one too few": {[]call{turned, {op: "Transpose", in: "x", out: "permute_1"},
			{op: "MatMul", text: attention, in: "permute permute_1", out: "val_1"},
			{op: "MatMul", text: attention, in: "val_1 permute_1", out: "y"}}, nil},
		"that the file has": {[]call{relu, {op: "Identity", in: "relu", out: "clone"},
			{op: "Add", text: add("%x, %clone"), in: "x clone", out: "add"}}, nil},
		"of which nodes disagree": {[]call{relu, {op: "Tanh", in: "x", out: "tanh"},
			{op: "Add", text: add("%x, %clone"), in: "x relu", out: "add"},
			{op: "Add", text: add("%x, %clone"), in: "x tanh", out: "add_1"}}, nil},
		"of one too few": {[]call{relu, {op: "Tanh", in: "x", out: "tanh"},
			{op: "Add", text: add("%mul, %clone"), in: "tanh relu", out: "add"}}, nil},
		"no copy": {[]call{relu, {op: "Add", text: add("%x, %cloned_1"), in: "x relu", out: "add"}}, nil},
	} {
		if name == "made contiguous" {
			c.calls[0].line = "y = x.permute(0, 2, 1).contiguous()"
		}
		m := graphOf(c.calls...)
		before := listed(m)
		got := module.Restore(m, recover.Facts)
		if want := c.want; want == nil {
			if got != m {
				t.Errorf("%s: %q", name, listed(got))
			}
		} else if !slices.Equal(listed(got), want) {
			t.Errorf("%s: %q\nwant %q", name, listed(got), want)
		}
		if !slices.Equal(listed(m), before) {
			t.Errorf("%s: the model that was given is another: %q", name, listed(m))
		}
	}
}
