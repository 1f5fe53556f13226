package estimate

import (
	"testing"

	"github.com/memestimate/memestimate/test/must"
)

// nn.TransformerEncoderLayer runs on other paths in training and in inference: the one copies its packed projection
// once, the other splits it by views and works in place after it, unless autocast is on
// (torch/nn/modules/activation.py).
func TestEncoderLayerPaths(t *testing.T) {
	b, err := Bind(openModel(t, "torch_encoder", "ts-train"), Options{Batch: 8})
	must.OK(t, err)
	for _, want := range []struct {
		train, autocast         bool
		copies, splits, inPlace int
	}{{true, false, 6, 0, 0}, {true, true, 6, 0, 0}, {false, false, 0, 6, 18}, {false, true, 6, 0, 0}} {
		p, err := b.program(want.train, want.autocast)
		must.OK(t, err)
		copies, splits, inPlace, attentions := 0, 0, 0, 0
		for _, c := range p.Calls {
			switch {
			case c.Op == "contiguous":
				copies++
			case c.Op == "split":
				splits++
			case c.Op == "sdpa":
				attentions++
			case c.Args.Inplace:
				inPlace++
			}
		}
		if copies != want.copies || splits != want.splits || inPlace != want.inPlace || attentions != 6 {
			t.Errorf("training %v, autocast %v: %d copies, %d splits, %d in place, %d attentions", want.train, want.autocast,
				copies, splits, inPlace, attentions)
		}
	}
}
