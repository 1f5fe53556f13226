package recover

import (
	"strings"

	"github.com/memestimate/memestimate/onnxload"
)

// A Tied is a weight that is taken for the transposed copy of a table of embeddings.
type Tied struct{ Head, Table onnxload.ValueID }

// tableNames are the names under which models of transformers that tie their last layer keep their table of
// embeddings. PretrainedConfig.tie_word_embeddings is true unless a model says otherwise, and those of the Llama
// family do, whose table is embed_tokens (PreTrainedModel.tie_weights in modeling_utils.py; get_input_embeddings in
// modeling_bert.py, modeling_t5.py, modeling_gpt2.py, modeling_xlnet.py, modeling_modernbert.py). Meta's Llama calls
// its table tok_embeddings too, but has no module of embeddings around it, and does not tie it.
var tableNames = map[string]bool{"word_embeddings": true, "shared": true, "wte": true, "word_embedding": true}

// vocabulary is how many rows a table of words has at least.
const vocabulary = 1000

// TiedHead finds the last layer of a language model whose weight the TorchScript exporter folded a transpose into,
// "onnx::MatMul_812", where the model shares it with its table of embeddings: it has the table's sizes, transposed,
// and what it makes is a result of the graph. Sizes alone do not tell: models written by hand have such heads of
// their own.
func TiedHead(m *onnxload.Model) (t Tied, ok bool) {
	dims := func(v onnxload.ValueID) []int64 {
		if v == onnxload.NoValue || m.Values[v].Init == nil || !m.Values[v].Init.DType.IsFloat() {
			return nil
		}
		return m.Values[v].Init.Dims
	}
	result := map[onnxload.ValueID]bool{}
	for _, v := range m.Graph.Outputs {
		result[v] = true
	}
	heads, tables := map[onnxload.ValueID][]int64{}, map[[2]int64][]onnxload.ValueID{}
	products := map[onnxload.ValueID]onnxload.ValueID{} // by their result, the head's weight
	for i := range m.Graph.Nodes {
		n := &m.Graph.Nodes[i]
		if len(n.In) < 2 || n.Domain != "" || n.Output(0) == onnxload.NoValue {
			continue
		}
		switch n.Op {
		case "Gather":
			if d := dims(n.Input(0)); len(d) == 2 && d[0] >= vocabulary && d[0] != d[1] {
				tables[[2]int64{d[1], d[0]}] = append(tables[[2]int64{d[1], d[0]}], n.Input(0))
			}
		case "MatMul":
			if w := n.Input(1); len(dims(w)) == 2 && strings.HasPrefix(m.NameOf(w), "onnx::MatMul_") {
				products[n.Output(0)] = w
				if result[n.Output(0)] {
					heads[w] = dims(w)
				}
			}
		case "Add": // its bias
			for _, v := range n.In {
				if w, ok := products[v]; ok && result[n.Output(0)] {
					heads[w] = dims(w)
				}
			}
		}
	}
	for head, d := range heads {
		if same := tables[[2]int64{d[0], d[1]}]; len(heads) == 1 && len(same) > 0 {
			for _, table := range same {
				if table != same[0] {
					return Tied{}, false
				}
			}
			name := strings.TrimSuffix(m.NameOf(same[0]), ".weight")
			return Tied{head, same[0]}, tableNames[name[strings.LastIndexByte(name, '.')+1:]] ||
				strings.HasSuffix(name, "embeddings.tok_embeddings")
		}
	}
	return Tied{}, false
}
