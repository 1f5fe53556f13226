package estimate

import (
	"strings"
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	"github.com/memestimate/memestimate/onnxload/onnxtest"
)

// A language model's head that folding of constants made a tensor of its own is counted with the table that it is tied
// to, where the table has a name of transformers; the upper bound counts both.
func TestTiedHead(t *testing.T) {
	const words, width = 2000, 64
	run := func(table, head string, words int64, more ...onnxtest.Node) *Report {
		t.Helper()
		g := onnxtest.Graph{
			In: []onnxtest.Value{onnxtest.Val("x", onnxload.Int64, 4, 16)},
			Inits: []onnxtest.Tensor{onnxtest.Bare(table, onnxload.Float32, words, width),
				onnxtest.Bare(head, onnxload.Float32, width, words), onnxtest.Bare("head.bias", onnxload.Float32, words)},
			Nodes: append([]onnxtest.Node{onnxtest.Op("Gather", table+" x", "e"), onnxtest.Op("MatMul", "e "+head, "m"),
				onnxtest.Op("Add", "head.bias m", "y")}, more...),
			Out: []onnxtest.Value{{Name: "y"}},
		}
		if len(more) > 0 {
			g.Out[0].Name = "z"
		}
		data := onnxtest.Model{Graph: g}.Bytes()
		m := readModel(t, data, "")
		r, err := Run(m, Options{Step: &Step{}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	const table, folded = "bert.embeddings.word_embeddings.weight", "onnx::MatMul_812"
	tied := run(table, folded, words)
	if want := int64(4 * (words*width + words)); tied.Parameters.Bytes != want || tied.Gradients.Bytes != want {
		t.Errorf("%d bytes of parameters and %d of gradients, wanted %d", tied.Parameters.Bytes, tied.Gradients.Bytes, want)
	}
	said := 0
	for _, n := range tied.Notes {
		if strings.Contains(n.Text, "is taken for a copy of") {
			said++
		}
	}
	if said != 1 {
		t.Errorf("%d notes say that the head is tied", said)
	}
	for name, r := range map[string]*Report{
		"a table of a model written by hand": run("e.weight", folded, words), "a head that the module registered": run(table,
			"head.weight", words),
		"the table of Meta's Llama": run("tok_embeddings.weight", folded, words),
		"few rows":                  run("bert.embeddings.word_embeddings.weight", folded, 500), "no result": run(table,
			folded, words, onnxtest.Op("Relu", "y", "z")),
	} {
		rows := int64(words)
		if name == "few rows" {
			rows = 500
		}
		if want := 4 * (2*rows*width + rows); r.Parameters.Bytes != want {
			t.Errorf("%s: %d bytes of parameters, wanted %d", name, r.Parameters.Bytes, want)
		}
	}
	if r := run("model.embeddings.tok_embeddings.weight", folded, words); r.Parameters.Bytes != tied.Parameters.Bytes {
		t.Errorf("ModernBERT's table: %d bytes of parameters, wanted %d", r.Parameters.Bytes, tied.Parameters.Bytes)
	}
	apart := run("e.weight", folded, words)
	if tied.Peak.Device >= apart.Peak.Device || tied.Peak.UpperBound < apart.Peak.UpperBound {
		t.Errorf("the device takes %d, at most %d; with two tensors %d, at most %d", tied.Peak.Device, tied.Peak.UpperBound,
			apart.Peak.Device, apart.Peak.UpperBound)
	}
}
