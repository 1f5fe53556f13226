package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/onnxload"
	on "github.com/memestimate/memestimate/onnxload/onnxtest"
	"github.com/memestimate/memestimate/test/must"
)

// A mask that an exporter computed from positions is as good as none; one that the module keeps is passed on.
func TestMasksThatExportersFold(t *testing.T) {
	for name, causal := range map[string]bool{"val_31": true, "attn.mask": false} {
		m := on.Model{Graph: on.Graph{
			In: []on.Value{on.Float("q", 2, 4, 16, 8), on.Float("k", 2, 4, 16, 8), on.Float("v", 2, 4, 16, 8)},
			Inits: []on.Tensor{on.Bare(name, onnxload.Bool, 1, 1, 16, 16), on.Float32s("val_1", 0.5).Scalar(),
				on.Float32s("val_2", 0).Scalar(), on.Float32s("val_3", -1e9).Scalar()},
			Nodes: []on.Node{
				on.Op("Transpose", "k", "kt", on.A("perm", []int64{0, 1, 3, 2})), on.Op("Mul", "q val_1", "qs"), on.Op("Mul",
					"kt val_1", "ks"), on.Op("MatMul", "qs ks", "scores"),
				on.Op("Where", name+" val_2 val_3", "mask"), on.Op("Add", "scores mask", "masked"), on.Op("Softmax", "masked", "p",
					on.A("axis", -1)), on.Op("MatMul", "p v", "y")},
			Out: []on.Value{on.Float("y", 2, 4, 16, 8)},
		}}
		data := m.Bytes()
		model := readModel(t, data, "")
		bound, err := Bind(model, Options{})
		must.OK(t, err)
		p, err := bound.Program(true)
		must.OK(t, err)
		found := false
		for _, c := range p.Calls {
			if c.Op == "sdpa" {
				found = true
				if c.Args.Causal != causal {
					t.Errorf("mask %q: is_causal is %v", name, c.Args.Causal)
				}
			}
		}
		if !found {
			t.Errorf("mask %q: no attention was found", name)
		}
	}
}
