package page

import (
	"testing"

	"github.com/memestimate/memestimate/estimate"
	"github.com/memestimate/memestimate/estimate/recover/module"
)

// What the page says of modules adds up to what the report says of the model, layers that share a name and parameters
// that no layer uses among them.
func TestModulesAddUp(t *testing.T) {
	r := &estimate.Report{Layers: []module.Layer{
		{Module: "block.conv", Op: "Conv", Nodes: 1, Params: 10, SavedBytes: 100},
		{Module: "block.conv", Op: "Relu", Nodes: 1, SavedBytes: 20},
		{Name: "(not used by any layer)", Nodes: 1, Params: 3, SavedBytes: 1},
		{Name: "(not used by any layer)", Params: 7},
	}}
	var parameters, saved int64
	for _, m := range modules(r) {
		parameters += m.Parameters
		saved += m.Saved
	}
	if parameters != 20 || saved != 121 {
		t.Errorf("%d parameters and %d bytes saved, want 20 and 121", parameters, saved)
	}
	if m := modules(r)["block.conv"]; m.Operator != "several" || m.Parameters != 10 || m.Saved != 120 {
		t.Errorf("the module called twice is %+v", m)
	}
}
